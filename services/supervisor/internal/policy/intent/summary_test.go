package intent

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

func TestSummary_DescribesAction(t *testing.T) {
	for want, a := range map[string]*permissionv1.Action{
		"run git push origin main in /ws":             called(`{"command":"git push origin main"}`),
		"run rm 'a b' in /ws/sub":                     called(`{"command":"rm","args":["a b"],"cwd":"/ws/sub"}`),
		"run ls with 1 variable set in /ws":           called(`{"command":"ls","env":[{"name":"PATH","value":"/x"},{"name":"CI","value":"1"}]}`),
		"run ls with 2 variables set in /ws":          called(`{"command":"ls","env":[{"name":"A","value":"/x"},{"name":"B","value":"1"}]}`),
		"run eval $x in /ws (not understood in full)": called(`{"command":"eval $x"}`),
		"write /ws/a.txt":                             called(`{"path":"/ws/a.txt"}`, "write"),
		"read /etc/passwd (outside the workspace)":    called(`{"path":"/etc/passwd"}`, "read"),
		"list /ws": called(`{"path":"/ws"}`, "list"),
		"write /ws/link (which is /real/link, outside the workspace)": called(`{"path":"/ws/link"}`, "write"),
		"edit /etc/b (outside the workspace) and 1 more":              asked(`{"kind":"edit","content":[` + diff("/ws/a") + `,` + diff("/etc/b") + `]}`),
		"edit /own/x (acphost's own)":                                 asked(`{"kind":"edit","content":[` + diff("/own/x") + `]}`),
		"delete /ws/a":                                                asked(`{"kind":"delete","rawInput":{"path":"/ws/a"}}`),
		"fetch something":                                             asked(`{"kind":"fetch","rawInput":{"url":"x"}}`),
		"do something that is not named (not understood in full)":     asked(`{"title":"read a file"}`),
		"ask a question":                                              Call(inSession(""), "elicitation/create", "", []byte(`{}`)),
		"call _acme.com/x":                                            Call(inSession(""), "_acme.com/x", "_acme.com/x", []byte(`{}`)),
		"run a command that is not named (not understood in full)":    asked(`{"kind":"execute","title":"ls"}`),
		`run ls\nrm x in /ws`:                                         called(`{"command":"ls\nrm x"}`),
		`write "/ws/a (which is /ws/b)"`:                              called(`{"path":"/ws/a (which is /ws/b)"}`, "write"),
		`write /ws/\u{202e}gnp.exe`:                                   called(`{"path":"/ws/`+"\u202e"+`gnp.exe"}`, "write"),
		`write /ws/a\u{200b}\u{fe0f}\u{a0}\u{1b}\u{e0041}`:            called(`{"path":"/ws/a`+"\u200b\ufe0f\u00a0"+`\u001b`+"\U000e0041"+`"}`, "write"),
		`run echo a \u{2026} b in /ws`:                                called(`{"command":"echo a … b"}`),
		"read /ws/a (where it leads is not known)":                    {Kind: "fs.read", Roots: []string{"/ws"}, Paths: []*permissionv1.PathAccess{{Path: "/ws/a"}}},
		"read /ws/../a (outside the workspace)":                       {Kind: "fs.read", Roots: []string{"/ws"}, Paths: []*permissionv1.PathAccess{{Path: "/ws/../a"}}},
	} {
		if got := Summary(a); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestSummary_KeepsBothEndsOfLongText(t *testing.T) {
	long := strings.Repeat("x", 5000)
	got := Summary(called(`{"command":"begin ` + long + ` end","cwd":"/ws/` + long + `/last"}`))
	for _, want := range []string{"run begin xxx", " […] ", "xxx end in /ws/xxx", "xxx/last"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	got = Summary(called(`{"path":"/ws/link/`+long+`/secret"}`, "write"))
	for _, want := range []string{"write /ws/link/xxx", "xxx/secret (which is", "/real/link/xxx", "outside the workspace)"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

func TestSummary_DistinguishesLongPaths(t *testing.T) {
	path := func(module string) string {
		return "/home/somebody/src/example/" + module + "/internal/transport/handler/handler_test.go"
	}
	one, other := Summary(called(`{"path":"`+path("orders")+`"}`, "write")), Summary(called(`{"path":"`+path("payments")+`"}`, "write"))
	if !strings.Contains(one, "/orders/") || !strings.Contains(other, "/payments/") {
		t.Errorf("the paths cannot be told apart: %q, %q", one, other)
	}
}

func FuzzSummary(f *testing.F) {
	f.Add("ls", "/ws/a", "\u202e")
	f.Add(strings.Repeat("a\n", 300), "/ws/\u200d", "…")
	f.Fuzz(func(t *testing.T, command, path, kind string) {
		for _, a := range []*permissionv1.Action{
			called(`{"command":` + string(jsonrpc.AppendString(nil, command)) + `,"cwd":` + string(jsonrpc.AppendString(nil, path)) + `}`),
			called(`{"path":`+string(jsonrpc.AppendString(nil, path))+`}`, "write"),
			Call(inSession(""), kind, kind, []byte(`{}`)),
			{Kind: kind, Command: &permissionv1.Command{Text: command, Cwd: path}, Paths: []*permissionv1.PathAccess{{Path: path, ResolvedPath: command}}},
			{Kind: kind, Paths: []*permissionv1.PathAccess{{Path: path, ResolvedPath: command}}},
		} {
			s := Summary(a)
			if n := utf8.RuneCountInString(s); n == 0 || n > maxSummary || !utf8.ValidString(s) {
				t.Fatalf("%d characters: %q", n, s)
			}
			for _, r := range s {
				if !unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.M, r) {
					t.Fatalf("%U in %q", r, s)
				}
			}
		}
	})
}

func TestTitle_IsRelativeToTheWorkspace(t *testing.T) {
	for want, a := range map[string]*permissionv1.Action{
		"run npm install":                          called(`{"command":"npm install"}`),
		"in sub: run npm install":                  called(`{"command":"npm install","cwd":"/ws/sub"}`),
		"in /etc: run ls":                          called(`{"command":"ls","cwd":"/etc"}`),
		"run ls in /etc":                           called(`{"command":"ls in /etc"}`), // a command cannot imitate another folder
		"write .github/workflows/x.yml":            called(`{"path":"/ws/.github/workflows/x.yml"}`, "write"),
		"list /ws":                                 called(`{"path":"/ws"}`, "list"),
		"read /etc/passwd (outside the workspace)": called(`{"path":"/etc/passwd"}`, "read"),
		"write /ws/link (which is /real/link, outside the workspace)": called(`{"path":"/ws/link"}`, "write"),
	} {
		if got := Title(a); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
