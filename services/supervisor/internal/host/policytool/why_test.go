package policytool_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/hosts"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

const (
	allow = permissionv1.Verdict_VERDICT_ALLOW
	deny  = permissionv1.Verdict_VERDICT_DENY
	ask   = permissionv1.Verdict_VERDICT_ASK
)

// explained is a decision with everything that can be shown.
func explained() *policytool.Explanation {
	return &policytool.Explanation{
		Home: "/home/me",
		Action: &permissionv1.Action{
			Kind: "terminal.create", Method: "terminal/create", Agent: "gemini", Mode: "code\x1b[31m",
			Roots: []string{"/w", "/other"}, ResolvedRoots: []string{"/real/w", "/other"},
			Unparsed: "a path begins with ~: where it leads is not certain",
			Command: &permissionv1.Command{
				Text: `A=1 sudo sh -c 'git status' && cd /tmp && $EDITOR > "out file" 2>$LOG`, Cwd: "/w/sub", Env: []string{"PATH=/x"},
				Unparsed: "part of it",
				SubCommands: []*permissionv1.SubCommand{
					{Argv: []string{"git", "status"}, Wrappers: []string{"sudo", "sh -c"}, Assignments: []string{"A=1"}, Facts: &permissionv1.Facts{
						Known: true, RunsCode: true, Network: true, Changes: true, Files: []*permissionv1.FileUse{
							{Path: "/w", ResolvedPath: "/real/w", Access: permissionv1.Access_ACCESS_READ, Recursive: true, InsideRoots: true},
							{Path: "/w/l", ResolvedPath: "/etc/x", Access: permissionv1.Access_ACCESS_READ, MetadataOnly: true},
							{Path: "/w/out", ResolvedPath: "/w/out", Access: permissionv1.Access_ACCESS_WRITE, InsideRoots: true},
						},
					}},
					{Argv: []string{"$EDITOR", "a\u202eb"}, Dynamic: true, DynamicWords: []uint32{0}, Cwd: "/tmp", Facts: &permissionv1.Facts{Unknown: "it is not known which program runs"}, Redirections: []*permissionv1.Redirection{
						{Operator: ">", Path: "out file", ResolvedPath: "/tmp/out file"}, {Operator: ">", Dynamic: true},
					}},
					{Dynamic: true, CwdUnknown: true},
				},
			},
			Paths: []*permissionv1.PathAccess{
				{Path: "/w/.env", ResolvedPath: "/real/w/.env", Access: permissionv1.Access_ACCESS_READ, InsideRoots: true},
				{Path: "/etc/passwd", ResolvedPath: "/etc/passwd", Access: permissionv1.Access_ACCESS_WRITE},
				{Path: "/gone", Access: permissionv1.Access_ACCESS_WRITE},
			},
		},
		Files: []*permissionv1.PolicyFile{
			{Name: "/etc/acphost/policy.yaml", Layer: permissionv1.Layer_LAYER_ADMIN},
			{Name: "/home/me/rules.yaml", Layer: permissionv1.Layer_LAYER_USER},
			{Name: "/w/.acphost/policy.yaml", Layer: permissionv1.Layer_LAYER_WORKSPACE},
			{Name: "/v/.acphost/policy.yaml", Layer: permissionv1.Layer_LAYER_WORKSPACE_TRUSTED},
		},
		Answer: &permissionv1.ExplainResponse{
			Decision: &permissionv1.DecideResponse{Verdict: deny, Rule: "secrets", Reason: "Secrets stay where they are.", LeaveOut: []string{"**/.env", "/w/private/**"}},
			Considered: []*permissionv1.Considered{
				{Rule: "secrets", Effect: "deny", File: "/home/me/rules.yaml", Line: 12, Matched: "yes", Why: "path[0] **/.env matches /w/.env"},
				{Rule: "rm", Effect: "ask", File: "/etc/acphost/policy.yaml", Line: 120, Matched: "no", Why: "no sub-command matches rm -rf or any of the other seven prefixes of the rule"},
				{Rule: "look-around", Effect: "allow", File: "/w/.acphost/policy.yaml", Line: 4, Matched: "no", Why: "command[1] is dynamic"},
				{Rule: "perhaps", Effect: "deny", File: "/v/.acphost/policy.yaml", Line: 5, Matched: "maybe", Why: "where it runs is not known"},
			},
		},
	}
}

func TestExplain_MatchesGoldenFiles(t *testing.T) {
	for name, style := range map[string]policytool.Style{
		"why": {}, "why-narrow": {Width: 64}, "why-color": {Color: true},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			explained().Print(&out, style)
			golden(t, name, out.String())
			for line := range strings.Lines(out.String()) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); style.Width > 0 && n > style.Width {
					t.Errorf("a line has %d columns: %q", n, line)
				}
			}
			if strings.Contains(out.String(), "\x1b[31m\n") || strings.ContainsAny(out.String(), "\u202e") {
				t.Error("an agent's text controls the terminal")
			}
		})
	}
	explanation, err := explained().JSON()
	out := indented(t, explanation, err)
	var object struct {
		Decision   struct{ Verdict, Rule string }
		Considered []struct{ Matched string }
		Action     struct{ Kind string }
		Files      []struct{ Name, Layer string }
	}
	if err := json.Unmarshal([]byte(out), &object); err != nil {
		t.Fatal(err)
	}
	if object.Decision.Verdict != "VERDICT_DENY" || len(object.Considered) != 4 || object.Action.Kind != "terminal.create" || len(object.Files) != 4 {
		t.Errorf("got %+v", object)
	}
}

func TestExplain_NamesLayerOrFile(t *testing.T) {
	for _, c := range []struct {
		name   string
		layers []permissionv1.Layer
		want   string // the position of a rule of the first file
	}{
		{"one file alone", []permissionv1.Layer{permissionv1.Layer_LAYER_USER}, "  policy.yaml:7  because"},
		{"one of each", []permissionv1.Layer{permissionv1.Layer_LAYER_WORKSPACE_TRUSTED, permissionv1.Layer_LAYER_USER}, "  workspace:7  because"},
		{"two of a kind", []permissionv1.Layer{permissionv1.Layer_LAYER_WORKSPACE, permissionv1.Layer_LAYER_WORKSPACE_TRUSTED}, "  /0/policy.yaml:7  because"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &policytool.Explanation{Action: &permissionv1.Action{}, Answer: &permissionv1.ExplainResponse{
				Considered: []*permissionv1.Considered{{Rule: "r", Effect: "deny", Matched: "no", File: "/0/policy.yaml", Line: 7, Why: "because"}},
			}}
			for i, layer := range c.layers {
				e.Files = append(e.Files, &permissionv1.PolicyFile{Name: "/" + strconv.Itoa(i) + "/policy.yaml", Layer: layer})
			}
			var out bytes.Buffer
			e.Print(&out, policytool.Style{})
			if !strings.Contains(out.String(), c.want) {
				t.Errorf("got\n%s\nwant %q in it", out.String(), c.want)
			}
		})
	}
}

func TestExplain_VerdictIsFirst(t *testing.T) {
	for _, c := range []struct {
		name     string
		decision *permissionv1.DecideResponse
		want     string
	}{
		{"an allow", &permissionv1.DecideResponse{Verdict: allow, Rule: "read"}, "allow  rule read\n"},
		{"a deny with a reason", &permissionv1.DecideResponse{Verdict: deny, Rule: "r", Reason: "No."}, "deny  rule r  No.\n"},
		{"no verdict is a deny", &permissionv1.DecideResponse{}, "deny  no rule matches\n"},
		{"an ask", &permissionv1.DecideResponse{Verdict: ask, Grantable: true}, "ask  no rule matches\n     not asked again if an answer is remembered; deny if no user is there to answer\n"},
		{"no rule and more", &permissionv1.DecideResponse{Reason: "no rule matches; it is not known what x does"}, "deny  no rule matches  it is not known what x does\n"},
		{"an ask each time", &permissionv1.DecideResponse{Verdict: ask, Rule: "rm", Unattended: allow}, "ask  rule rm\n     asked every time; allow if no user is there to answer\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &policytool.Explanation{Action: &permissionv1.Action{}, Answer: &permissionv1.ExplainResponse{Decision: c.decision}}
			var out bytes.Buffer
			e.Print(&out, policytool.Style{})
			if !strings.HasPrefix(out.String(), c.want) {
				t.Errorf("got %q, want it to begin with %q", out.String(), c.want)
			}
		})
	}
}

func TestExplain_ReturnsLoadErrors(t *testing.T) {
	files := []*permissionv1.PolicyFile{{Name: "a.yaml"}, {Name: "b.yaml"}}
	_, err := policytool.Explain(t.Context(), serve(t, &fake{}), ours(t), &permissionv1.Action{Kind: "fs.read"}, hosts.Known{}, files)
	if err == nil || err.Error() != "decide by a.yaml, b.yaml: rules.yaml:3:1: no such effect" {
		t.Errorf("error is %v", err)
	}
}

func TestExplain_OwnDecisionsSkipPolicy(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/etc/acphost", link); err != nil {
		t.Fatal(err)
	}
	q := policytool.Question{Path: "link/policy.yaml", Dir: dir, Gate: ours(t)}
	a, err := q.Action()
	if err != nil {
		t.Fatal(err)
	}
	e, err := policytool.Explain(t.Context(), serve(t, &fake{}), q.Gate, a, hosts.Known{}, nil)
	if err != nil || e.Answer.GetDecision().GetRule() != "acphost/protected" || e.Answer.GetDecision().GetVerdict() != deny {
		t.Errorf("got %v, %v", e, err)
	}
	e, err = policytool.Explain(t.Context(), serve(t, &fake{}), ours(t), &permissionv1.Action{Kind: "tool.switch_mode"}, hosts.Known{}, nil)
	if err != nil || e.Answer.GetDecision().GetVerdict() != ask {
		t.Errorf("got %v, %v", e, err)
	}
}

// ours is a gate to which /etc/acphost belongs, and some key files.
func ours(t *testing.T, keys ...string) *gate.Gate {
	t.Helper()
	g, err := policytool.NewGate([]string{"/etc/acphost"}, keys)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestExplain_ShowsOwnRulesWithRemedy(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "model.key"), "k")
	put(t, filepath.Join(dir, "bin/tool"), "")
	for _, name := range []string{"HEAD", "objects/x", "refs/x"} {
		put(t, filepath.Join(dir, "sub/.git", name), "")
	}
	if err := os.Chmod(filepath.Join(dir, "bin/tool"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+"/bin:"+os.Getenv("PATH"))
	files := []*permissionv1.PolicyFile{{Name: "p.yaml", Layer: permissionv1.Layer_LAYER_USER}}
	asks := &permissionv1.DecideResponse{Verdict: ask, Reason: "no rule matches"}
	but := func(why string) *permissionv1.DecideResponse {
		return &permissionv1.DecideResponse{Verdict: ask, Detail: "rule r would allow this, but " + strings.ReplaceAll(why, "DIR", dir)}
	}
	for _, c := range []struct {
		name   string
		q      policytool.Question
		files  []*permissionv1.PolicyFile
		policy *permissionv1.DecideResponse // the decision of the policy
		want   permissionv1.Verdict
		rule   string
		next   string
	}{
		{"a key by its name", policytool.Question{Command: "cat model.key"}, files, nil, deny, "acphost/protected", "A file with a key"},
		{"a key by a pattern", policytool.Question{Command: "cat *.key"}, files, nil, deny, "acphost/protected", "A file with a key"},
		{"a possible key", policytool.Question{Command: "cat $FILE"}, files, &permissionv1.DecideResponse{Verdict: allow, Rule: "r"}, ask, "acphost/unclear", "write out the names"},
		{"git's files", policytool.Question{Path: ".git/config", Kind: "fs.write"}, files, nil, deny, "acphost/git", "git's own commands"},
		{"git's files, read", policytool.Question{Path: ".git/config"}, files, asks, ask, "", "write a rule"},
		{"acphost's own in the workspace", policytool.Question{Path: ".acphost/policy.yaml", Kind: "fs.write"}, files, nil, deny, "acphost/protected", "change it yourself"},
		{"without a policy", policytool.Question{Command: "make"}, nil, nil, allow, "acphost/no-policy", "--policy workspace"},
		{"git's files without a policy", policytool.Question{Path: ".git/hooks/x", Kind: "fs.write"}, nil, nil, deny, "acphost/git", "git's own commands"},
		{"a question without a policy", policytool.Question{Command: "make", Kind: "tool.execute"}, nil, nil, ask, "", ""},
		{"a program of the workspace", policytool.Question{Command: "tool x"}, files, but("tool is DIR/bin/tool, a program of the workspace"), ask, "", "workspace_programs: true"},
		{"a nested repository", policytool.Question{Command: "cd sub && git status"}, files, but("git works on DIR/sub/.git, which is not the folder .git of a root of the session"), ask, "", "open the session in the folder of that repository"},
		{"a nested repository that is not the reason", policytool.Question{Command: "cd sub && git status"}, files, asks, ask, "", "write a rule"},
		{"a word that is known at run time", policytool.Question{Command: "make $X"}, files, asks, ask, "", "only known when `make` runs"},
		{"a rule that asks", policytool.Question{Command: "make"}, files, &permissionv1.DecideResponse{Verdict: ask, Rule: "r"}, ask, "r", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.q.Dir, c.q.Gate = dir, ours(t, dir+"/model.key")
			if c.q.Gate == nil {
				c.q.Gate = ours(t)
			}
			a, err := c.q.Action()
			if err != nil {
				t.Fatal(err)
			}
			service := &fake{}
			if c.policy != nil {
				service.explain = func(*permissionv1.ExplainRequest) (*permissionv1.ExplainResponse, error) {
					return &permissionv1.ExplainResponse{Decision: c.policy}, nil
				}
			}
			e, err := policytool.Explain(t.Context(), serve(t, service), c.q.Gate, a, hosts.Known{}, c.files)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			e.Print(&out, policytool.Style{})
			if d := e.Answer.GetDecision(); d.GetVerdict() != c.want || d.GetRule() != c.rule {
				t.Errorf("got %v\n%s", d, out.String())
			}
			if strings.Contains(out.String(), "→ ") != (c.next != "") || !strings.Contains(out.String(), c.next) {
				t.Errorf("want %q to be done next:\n%s", c.next, out.String())
			}
		})
	}
}

func TestQuestion_BecomesAction(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "real/file"), "")
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		q    policytool.Question
		kind string
		door permissionv1.Door
		path string // asked|resolved|inside|access
	}{
		{"a file", policytool.Question{Path: "real/file"}, "fs.read", permissionv1.Door_DOOR_CALL, "DIR/real/file|DIR/real/file|inside|read"},
		{"a link inside", policytool.Question{Path: "link/file", Kind: "fs.write"}, "fs.write", permissionv1.Door_DOOR_CALL, "DIR/link/file|DIR/real/file|inside|write"},
		{"a link that leaves", policytool.Question{Path: "out/passwd"}, "fs.read", permissionv1.Door_DOOR_CALL, "DIR/out/passwd|/etc/passwd|outside|read"},
		{"a file that is not there", policytool.Question{Path: "link/new/x", Kind: "tool.edit"}, "tool.edit", permissionv1.Door_DOOR_REQUEST, "DIR/link/new/x|DIR/real/new/x|inside|write"},
		{"an absolute path", policytool.Question{Path: "/etc/passwd", Kind: "tool.read"}, "tool.read", permissionv1.Door_DOOR_REQUEST, "/etc/passwd|/etc/passwd|outside|read"},
		{"a folder", policytool.Question{Path: ".", Kind: "fs.list"}, "fs.list", permissionv1.Door_DOOR_CALL, "DIR|DIR|inside|read"},
		{"a process's write", policytool.Question{Path: "link/file", Kind: "process.write"}, "fs.write", permissionv1.Door_DOOR_KERNEL, "DIR/real/file|DIR/real/file|inside|write"},
		{"a process's read", policytool.Question{Path: "out/passwd", Kind: "process.read"}, "fs.read", permissionv1.Door_DOOR_KERNEL, "/etc/passwd|/etc/passwd|outside|read"},
		{"a process's bookkeeping of git", policytool.Question{Path: ".git/refs/heads/x", Kind: "process.git"}, "fs.write", permissionv1.Door_DOOR_KERNEL, "DIR/.git/refs/heads/x|DIR/.git/refs/heads/x|inside|write"},
		{"a socket", policytool.Question{Path: "link/socket", Kind: "net.connect"}, "net.connect", permissionv1.Door_DOOR_KERNEL, "DIR/real/socket|DIR/real/socket|inside|write"},
		{"a command", policytool.Question{Command: "ls > link/out"}, "terminal.create", permissionv1.Door_DOOR_CALL, "DIR/link/out|DIR/real/out|inside|write"},
		{"a command that is asked about", policytool.Question{Command: "ls > link/out", Kind: "tool.execute"}, "tool.execute", permissionv1.Door_DOOR_REQUEST, "DIR/link/out|DIR/real/out|inside|write"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.q.Dir, c.q.Agent, c.q.Mode = dir, "gem", "code"
			if c.q.Gate == nil {
				c.q.Gate = ours(t)
			}
			a, err := c.q.Action()
			if err != nil {
				t.Fatal(err)
			}
			if a.GetKind() != c.kind || a.GetDoor() != c.door || a.GetAgent() != "gem" || a.GetMode() != "code" || a.GetUnparsed() != "" ||
				!slices.Equal(a.GetRoots(), []string{dir}) || !slices.Equal(a.GetResolvedRoots(), []string{dir}) {
				t.Errorf("the action is %v", a)
			}
			if len(a.GetPaths()) != 1 {
				t.Fatalf("the paths are %v, want one", a.GetPaths())
			}
			p := a.GetPaths()[0]
			got := strings.Join([]string{
				p.GetPath(), p.GetResolvedPath(), map[bool]string{true: "inside", false: "outside"}[p.GetInsideRoots()],
				strings.ToLower(strings.TrimPrefix(p.GetAccess().String(), "ACCESS_")),
			}, "|")
			if want := strings.ReplaceAll(c.path, "DIR", dir); got != want {
				t.Errorf("the path is %s, want %s", got, want)
			}
		})
	}
}

func TestQuestion_RejectsInvalid(t *testing.T) {
	for _, c := range []struct {
		name string
		q    policytool.Question
		want string
	}{
		{"nothing", policytool.Question{}, "either a command or a path"},
		{"both", policytool.Question{Command: "a", Path: "b"}, "either a command or a path"},
		{"a command that is read", policytool.Question{Command: "a", Kind: "fs.read"}, `"fs.read" has no command`},
		{"a path that is run", policytool.Question{Path: "a", Kind: "terminal.create"}, `"terminal.create" has no path`},
		{"a process's command", policytool.Question{Command: "make", Kind: "process.start"}, "-- PROGRAM"},
		{"a process's kind", policytool.Question{Path: "a", Kind: "process.list"}, "expected process.start"},
		{"git's bookkeeping", policytool.Question{Path: ".git/index.lock", Kind: "process.write"}, "its kind is process.git"},
		{"a program that git runs", policytool.Question{Path: ".git/hooks/pre-push", Kind: "process.git"}, "its kind is process.write"},
		{"another kind", policytool.Question{Path: "a", Kind: "elicitation"}, "or an action as JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.q.Dir = "/w"
			c.q.Gate = ours(t)
			if a, err := c.q.Action(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v, want %q", a, err, c.want)
			}
		})
	}
}

func TestParseAction_ReadsJSON(t *testing.T) {
	a, err := policytool.ParseAction("x", []byte(`{"kind": "fs.read", "session_id": "s", "resolvedRoots": ["/w"], "door": "DOOR_CALL"}`))
	if err != nil || a.GetSessionId() != "s" || a.GetResolvedRoots()[0] != "/w" || a.GetDoor() != permissionv1.Door_DOOR_CALL {
		t.Errorf("got %v, %v", a, err)
	}
	for text, want := range map[string]string{
		"{}":                       `x: expected an action as JSON, with "kind" at least`,
		`{"kind": "x", "knd": ""}`: `x: expected an action as JSON: (line 1:15): unknown field "knd"`,
		"nonsense":                 "x: expected an action as JSON: syntax error (line 1:1): invalid value nonsense",
	} {
		if _, err := policytool.ParseAction("x", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: error is %q, want %q", text, err, want)
		}
	}
}
