package intent

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// asked is the action of a question about a tool call in short.
func asked(report string) *permissionv1.Action {
	raw := []byte(report)
	tc := acp.ToolCall{ID: "c", Content: acp.Get(raw, "content"), Locations: acp.Get(raw, "locations"), RawInput: acp.Get(raw, "rawInput")}
	tc.Kind, _ = acp.String(acp.Get(raw, "kind"))
	return Question(inSession(""), tc)
}

// called is the action of a call: of a terminal, unless a method of files says otherwise.
func called(params string, method ...string) *permissionv1.Action {
	if len(method) == 0 {
		return Call(inSession(""), "terminal/create", "terminal.create", []byte(params))
	}
	kind := map[string]string{"read": "fs.read", "write": "fs.write", "list": "fs.list"}[method[0]]
	return Call(inSession(""), "fs/"+method[0], kind, []byte(params))
}

func TestSame_AcceptsEqualCalls(t *testing.T) {
	for _, tt := range []struct {
		name          string
		asked, called *permissionv1.Action
	}{
		{"an edit that writes", asked(`{"kind":"edit","content":[` + diff("/ws/a") + `]}`), called(`{"path":"/ws/a"}`, "write")},
		{"an edit that reads first", asked(`{"kind":"edit","content":[` + diff("/ws/a") + `]}`), called(`{"path":"/ws/a"}`, "read")},
		{"one of several files", asked(`{"kind":"edit","content":[` + diff("/ws/a") + `,` + diff("/ws/b") + `]}`), called(`{"path":"/ws/b"}`, "write")},
		{"a read", asked(`{"kind":"read","locations":[{"path":"/ws/a"}]}`), called(`{"path":"/ws/a"}`, "read")},
		{"a search that lists", asked(`{"kind":"search","rawInput":{"path":"/ws/src"}}`), called(`{"path":"/ws/src/"}`, "list")},
		{"another spelling of the file", asked(`{"kind":"read","rawInput":{"path":"/ws/./a"}}`), called(`{"path":"/ws/b/../a"}`, "read")},
		{"a link and where it leads", asked(`{"kind":"read","rawInput":{"path":"/ws/link/a"}}`), called(`{"path":"/real/link/a"}`, "read")},
		{"a line", asked(`{"kind":"execute","rawInput":{"command":"a && b > c"}}`), called(`{"command":"a && b > c"}`)},
		{"a line for bash", asked(`{"kind":"execute","rawInput":{"command":["bash","-lc","a && b > c"]}}`), called(`{"command":"a && b > c"}`)},
		{"a line through a shell", asked(`{"kind":"execute","rawInput":{"command":"a | b"}}`), called(`{"command":"/bin/sh","args":["-c","a | b"]}`)},
		{"a line that names the shell", asked(`{"kind":"execute","rawInput":{"command":"bash -c 'a; b'"}}`), called(`{"command":"a; b"}`)},
		{"words that are executed", asked(`{"kind":"execute","rawInput":{"command":"npm run 'a b'"}}`), called(`{"command":"npm","args":["run","a b"]}`)},
		{"words that a shell reads", asked(`{"kind":"execute","rawInput":{"command":["npm","test"]}}`), called(`{"command":"bash","args":["-c","npm test"]}`)},
		{"dynamic words, alike", asked(`{"kind":"execute","rawInput":{"command":"rm $x *.o"}}`), called(`{"command":"rm $x *.o"}`)},
		{"an unparsed line, alike", asked(`{"kind":"execute","rawInput":{"command":"eval $x"}}`), called(`{"command":"eval $x"}`)},
		{"the session's directory, spelled out", asked(`{"kind":"execute","rawInput":{"command":"ls"}}`), called(`{"command":"ls","cwd":"/ws/"}`)},
		{"another directory, alike", asked(`{"kind":"execute","rawInput":{"command":"ls","cwd":"sub"}}`), called(`{"command":"ls","cwd":"/ws/sub"}`)},
		{"a harmless variable", asked(`{"kind":"execute","rawInput":{"command":"ls"}}`), called(`{"command":"ls","env":[{"name":"NO_COLOR","value":"1"}]}`)},
		{"a variable, alike", asked(`{"kind":"execute","rawInput":{"command":"ls","env":{"PATH":"/x"}}}`), called(`{"command":"ls","env":[{"name":"LANG","value":"C"},{"name":"PATH","value":"/x"}]}`)},
	} {
		if !Same(tt.asked, tt.called) {
			t.Errorf("%s is not the same:\n%v\n%v", tt.name, tt.asked, tt.called)
		}
	}
}

func TestSame_RejectsOtherCalls(t *testing.T) {
	ls, edit := `{"kind":"execute","rawInput":{"command":"ls"}}`, `{"kind":"edit","content":[`+diff("/ws/a")+`]}`
	with := func(a *permissionv1.Action, change func(*permissionv1.Action)) *permissionv1.Action {
		change(a)
		return a
	}
	for _, tt := range []struct {
		name          string
		asked, called *permissionv1.Action
	}{
		{"nothing", nil, nil},
		{"nothing asked", &permissionv1.Action{}, called(`{"command":"ls"}`)},
		{"nothing called", asked(ls), &permissionv1.Action{}},
		{"another file", asked(edit), called(`{"path":"/ws/b"}`, "write")},
		{"a file in it", asked(edit), called(`{"path":"/ws/a/b"}`, "write")},
		{"a file with the same beginning", asked(edit), called(`{"path":"/ws/ab"}`, "write")},
		{"a link with the file's name", asked(edit), with(called(`{"path":"/ws/a"}`, "write"), func(a *permissionv1.Action) { a.Paths[0].ResolvedPath = "/etc/passwd" })},
		{"a file that is not resolved any more", asked(edit), with(called(`{"path":"/ws/a"}`, "write"), func(a *permissionv1.Action) { a.Paths[0].ResolvedPath = "" })},
		{"a file that was not resolved", with(asked(edit), func(a *permissionv1.Action) { a.Paths[0].ResolvedPath = "" }), called(`{"path":"/ws/a"}`, "write")},
		{"one of acphost's own files", asked(`{"kind":"edit","content":[` + diff("/own/a") + `]}`), called(`{"path":"/own/a"}`, "write")},
		{"a write after a read", asked(`{"kind":"read","rawInput":{"path":"/ws/a"}}`), called(`{"path":"/ws/a"}`, "write")},
		{"a write after a search", asked(`{"kind":"search","rawInput":{"path":"/ws/a"}}`), called(`{"path":"/ws/a"}`, "write")},
		{"a write after a deletion", asked(`{"kind":"delete","rawInput":{"path":"/ws/a"}}`), called(`{"path":"/ws/a"}`, "write")},
		{"a write after a move", asked(`{"kind":"move","rawInput":{"path":"/ws/a"}}`), called(`{"path":"/ws/a"}`, "write")},
		{"a write after a thought", asked(`{"kind":"think","locations":[{"path":"/ws/a"}]}`), called(`{"path":"/ws/a"}`, "write")},
		{"a write after something else", asked(`{"kind":"other","locations":[{"path":"/ws/a"}]}`), called(`{"path":"/ws/a"}`, "write")},
		{"a write after a kind that is missing", asked(`{"locations":[{"path":"/ws/a"}]}`), called(`{"path":"/ws/a"}`, "write")},
		{"a write to where a command redirects", asked(`{"kind":"execute","rawInput":{"command":"echo > a"}}`), called(`{"path":"/ws/a"}`, "write")},
		{"a command after an edit", asked(edit), called(`{"command":"echo > a"}`)},
		{"a file of a question that is not understood", asked(`{"kind":"edit","content":[` + diff("/ws/a") + `,{"type":"diff"}]}`), called(`{"path":"/ws/a"}`, "write")},
		{"a call that is not understood", asked(edit), called(`{"path":"a"}`, "write")},
		{"a call without a path", asked(edit), called(`{}`, "write")},
		{"another command", asked(ls), called(`{"command":"rm"}`)},
		{"another option", asked(ls), called(`{"command":"ls","args":["-R"]}`)},
		{"a command more", asked(`{"kind":"execute","rawInput":{"command":"a && b"}}`), called(`{"command":"a && b; c"}`)},
		{"a command less", asked(`{"kind":"execute","rawInput":{"command":"test -f x && rm x"}}`), called(`{"command":"rm x"}`)},
		{"another operator", asked(`{"kind":"execute","rawInput":{"command":"a && b"}}`), called(`{"command":"a || b"}`)},
		{"another order", asked(`{"kind":"execute","rawInput":{"command":"a; b"}}`), called(`{"command":"b; a"}`)},
		{"another redirection", asked(`{"kind":"execute","rawInput":{"command":"a > b"}}`), called(`{"command":"a >> b"}`)},
		{"another here-document", asked(`{"kind":"execute","rawInput":{"command":"tee f <<E\na\nE\n"}}`), called(`{"command":"tee f <<E\nb\nE\n"}`)},
		{"an assignment", asked(ls), called(`{"command":"PATH=/x ls"}`)},
		{"the background", asked(ls), called(`{"command":"ls &"}`)},
		{"another dynamic word", asked(`{"kind":"execute","rawInput":{"command":"rm $x"}}`), called(`{"command":"rm $y"}`)},
		{"a word that is dynamic only here", asked(`{"kind":"execute","rawInput":{"command":"rm '$x'"}}`), called(`{"command":"rm $x"}`)},
		{"executed words that a shell would expand", asked(`{"kind":"execute","rawInput":{"command":["rm","*"]}}`), called(`{"command":"rm *"}`)},
		{"other rights", asked(ls), called(`{"command":"sudo ls"}`)},
		{"another user", asked(`{"kind":"execute","rawInput":{"command":"sudo -u nobody ls"}}`), called(`{"command":"sudo ls"}`)},
		{"another setting of git", asked(`{"kind":"execute","rawInput":{"command":"git -c color.ui=a log"}}`), called(`{"command":"git -c color.ui=b log"}`)},
		{"another shell", asked(`{"kind":"execute","rawInput":{"command":"ls; a"}}`), called(`{"command":"/tmp/sh","args":["-c","ls; a"]}`)},
		{"a shell with another option", asked(`{"kind":"execute","rawInput":{"command":"ls; a"}}`), called(`{"command":"sh","args":["-xc","ls; a"]}`)},
		{"a shell with arguments", asked(`{"kind":"execute","rawInput":{"command":"sh -c 'a \"$0\"' x"}}`), called(`{"command":"sh","args":["-c","a \"$0\"","y"]}`)},
		{"an unparsed line, almost alike", asked(`{"kind":"execute","rawInput":{"command":"eval $x"}}`), called(`{"command":"eval  $x"}`)},
		{"an unparsed line through a shell", asked(`{"kind":"execute","rawInput":{"command":["sh","-c","eval $x"]}}`), called(`{"command":"eval $x"}`)},
		{"a question that can be read in two ways", asked(`{"kind":"execute","rawInput":{"command":"ls","command":"rm"}}`), called(`{"command":"ls"}`)},
		{"a command with a diff", asked(`{"kind":"execute","rawInput":{"command":"ls"},"content":[` + diff("/ws/a") + `]}`), called(`{"command":"ls"}`)},
		{"another directory", asked(ls), called(`{"command":"ls","cwd":"/etc"}`)},
		{"another directory than asked for", asked(`{"kind":"execute","rawInput":{"command":"ls","cwd":"/ws/a"}}`), called(`{"command":"ls"}`)},
		{"a directory that is behind a link", asked(`{"kind":"execute","rawInput":{"command":"ls","cwd":"/ws/a"}}`), called(`{"command":"ls","cwd":"/ws/link/../a"}`)},
		{"a variable", asked(ls), called(`{"command":"ls","env":[{"name":"LD_PRELOAD","value":"/x"}]}`)},
		{"another value of a variable", asked(`{"kind":"execute","rawInput":{"command":"ls","env":{"A":"1"}}}`), called(`{"command":"ls","env":[{"name":"A","value":"2"}]}`)},
		{"a variable that is missing", asked(`{"kind":"execute","rawInput":{"command":"ls","env":{"A":"1"}}}`), called(`{"command":"ls"}`)},
		{"no command", asked(`{"kind":"execute","title":"ls"}`), called(`{"command":"ls"}`)},
		{"what is cut alike", asked(`{"kind":"execute","rawInput":{"command":"echo ` + strings.Repeat("x", maxRawInput) + `a"}}`), called(`{"command":"echo ` + strings.Repeat("x", maxRawInput) + `b"}`)},
		{"what is cut alike, with the same doubts", with(asked(ls), func(a *permissionv1.Action) {
			a.Command.Text, a.Unparsed = strings.Repeat("x", maxRawInput), "the command is over 1 MiB"
		}), called(`{"command":"` + strings.Repeat("x", maxRawInput+5) + `"}`)},
		{"another session", with(asked(ls), func(a *permissionv1.Action) { a.SessionId = "t" }), called(`{"command":"ls"}`)},
		{"another agent", with(asked(ls), func(a *permissionv1.Action) { a.Agent = "t" }), called(`{"command":"ls"}`)},
		{"what is done already", with(asked(ls), func(a *permissionv1.Action) { a.Done = true }), called(`{"command":"ls"}`)},
		{"two questions", asked(ls), asked(ls)},
		{"two calls", called(`{"command":"ls"}`), called(`{"command":"ls"}`)},
		{"another method", asked(ls), Call(inSession(""), "_x/y", "_x/y", []byte(`{"command":"ls"}`))},
		{"a redirection that leads elsewhere by now", asked(`{"kind":"execute","rawInput":{"command":"ls > a"}}`),
			with(called(`{"command":"ls > a"}`), func(a *permissionv1.Action) { a.Paths[0].ResolvedPath = "/etc/a" })},
	} {
		if Same(tt.asked, tt.called) {
			t.Errorf("%s is taken for the same:\n%v\n%v", tt.name, tt.asked, tt.called)
		}
	}
}

// FuzzSame checks that what is the same stays what was asked for: no command that is not in the question's line.
func FuzzSame(f *testing.F) {
	for _, seed := range [][2]string{{"ls", "ls"}, {"a && b", "a || b"}, {"sh -c 'a;b'", "a;b"}, {"bash -c \"bash -c 'a'\"", "a"}, {"a\n", "a"}, {"a b", "a  b"}, {"a 'b'", "a b"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		question := Question(inSession(""), acp.ToolCall{Kind: "execute", RawInput: append(append([]byte(`{"command":`), jsonrpc.AppendString(nil, a)...), '}')})
		call := called(`{"command":` + string(jsonrpc.AppendString(nil, b)) + `}`)
		if !Same(question, call) {
			return
		}
		if x, y := question.GetCommand(), call.GetCommand(); x.GetUnparsed() != y.GetUnparsed() || len(x.GetSubCommands()) != len(y.GetSubCommands()) {
			t.Fatalf("%q and %q are the same", a, b)
		}
		for i, sub := range question.GetCommand().GetSubCommands() {
			other := proto.CloneOf(call.GetCommand().GetSubCommands()[i])
			other.Wrappers = sub.GetWrappers()
			if !proto.Equal(sub, other) {
				t.Fatalf("%q and %q are the same, but %v is not %v", a, b, sub, other)
			}
		}
	})
}
