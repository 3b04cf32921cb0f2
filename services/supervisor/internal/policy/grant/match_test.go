package grant

import (
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

func TestMatch_CoversOnlyGrantedActions(t *testing.T) {
	status := func() *supervisorv1.Grant { return prefix(workspace, "git status") }
	for _, tt := range []struct {
		name   string
		grants []*supervisorv1.Grant
		action *permissionv1.Action
		want   Verdict
	}{
		{"the prefix alone", g(status()), line("git status"), Allow},
		{"the prefix and more", g(status()), line("git status -s"), Allow},
		{"the prefix through a shell", g(status()), words("sh", "-c", "git status -s"), Allow},
		{"the prefix in the workspace by its own name", g(status()), in(line("git status"), "/w"), Allow},
		{"the prefix in the workspace by the agent's name for it", g(status()), in(line("git status"), "/link/w/"), Allow},
		{"the prefix after a cd into the workspace", g(status()), line("cd /w && git status"), Allow},
		{"the prefix behind a harmless variable", g(status()), line("NO_COLOR=1 git status"), Allow},
		{"the prefix in a harmless environment", g(status()), withEnv(line("git status"), "NO_COLOR=1"), Allow},
		{"the prefix twice", g(status()), line("git status; git status -s"), Allow},
		{"the prefix with its errors thrown away", g(status()), line("git status 2>/dev/null"), Allow},
		{"a file below the workspace", g(prefix(workspace, "cat")), line("cat src/a.go /w/b"), Allow},

		{"a longer word", g(status()), line("git statusx"), None},
		{"another program", g(status()), line("gitt status"), None},
		{"the program of the workspace", g(status()), line("./git status"), None},
		{"the program in some folder", g(status()), line("/tmp/git status"), None},
		{"another case", g(status()), line("GIT status"), None},
		{"a blank within a word", g(status()), words("git status"), None},
		{"a part of the prefix", g(status()), line("git"), None},
		{"an option before the prefix", g(status()), line("git -c core.pager=x status"), None},
		{"one more command", g(status()), line("git status; rm x"), None},
		{"one more command on a new line", g(status()), line("git status\nrm x"), None},
		{"one more command in the background", g(status()), line("git status & rm x"), None},
		{"a substitution", g(status()), line("git status $(rm x)"), None},
		{"a process substitution", g(status()), line("git status <(rm x)"), None},
		{"a variable", g(status()), line("git status $X"), None},
		{"a glob", g(status()), line("git status *"), None},
		{"a redefined name", g(status()), line("git() { rm x; }; git status"), None},
		{"a variable that changes what runs", g(status()), line("GIT_SSH=x git status"), None},
		{"an environment that changes what runs", g(status()), withEnv(line("git status"), "PATH=/tmp"), None},
		{"another directory", g(status()), in(line("git status"), "/x"), None},
		{"a directory below", g(status()), in(line("git status"), "/w/sub"), None},
		{"a directory that goes up", g(status()), in(line("git status"), "/w/sub/.."), None},
		{"a cd elsewhere", g(status()), line("cd /x && git status"), None},
		{"a cd below", g(status()), line("cd sub && git status"), None},
		{"a cd up", g(status()), line("cd .. && git status"), None},
		{"a cd to who knows where", g(status()), line("cd $X && git status"), None},
		{"a pushd elsewhere", g(status()), line("pushd /x; git status"), None},
		{"a file written", g(status()), line("git status > out"), None},
		{"under sudo", g(status()), line("sudo git status"), None},
		{"under a shell of the workspace's", g(status()), line("./sh -c 'git status'"), None},
		{"by xargs", g(status()), line("ls | xargs git status"), None},
		{"an option that runs something", g(prefix(workspace, "git diff")), line("git diff --ext-diff"), None},
		{"an option that writes", g(prefix(workspace, "git diff")), line("git diff --output=x"), None},
		{"find that deletes", g(prefix(workspace, "find")), line("find . -delete"), None},
		{"a file elsewhere", g(prefix(workspace, "cat")), line("cat /etc/passwd"), None},
		{"a file at home", g(prefix(workspace, "cat")), words("cat", "~/.ssh/id_rsa"), None},
		{"a file above", g(prefix(workspace, "cat")), line("cat src/../../x"), None},
		{"a file beside the workspace", g(prefix(workspace, "cat")), line("cat /workspace/x"), None},
		{"a file elsewhere as an option", g(prefix(workspace, "grep x")), line("grep x --file=/etc/passwd"), None},
		{"a file elsewhere in a cluster of options", g(prefix(workspace, "grep")), line("grep -nf/etc/passwd x"), None},
		{"an input elsewhere", g(prefix(workspace, "grep x")), line("grep x < /etc/passwd"), None},
		{"a prefix that must not be one: an interpreter", g(prefix(workspace, "python3")), line("python3 x.py"), None},
		{"a prefix that must not be one: rm", g(prefix(workspace, "rm")), line("rm x"), None},
		{"a prefix that must not be one: a package manager", g(prefix(workspace, "npm test")), line("npm test"), None},
		{"a prefix that must not be one: git push", g(prefix(workspace, "git push")), line("git push"), None},
		{"a prefix of a whole program with subcommands", g(prefix(workspace, "git")), line("git status"), None},

		{"exactly these words", g(run(workspace, "npm test")), line("npm test"), Allow},
		{"exactly these words, quoted otherwise", g(run(workspace, "npm test")), line(`"npm" 't'est`), Allow},
		{"one word more", g(run(workspace, "npm test")), line("npm test x"), None},
		{"one word less", g(run(workspace, "npm test")), line("npm"), None},
		{"an empty word more", g(run(workspace, "npm test")), words("npm", "test", ""), None},
		{"both of two commands", g(run(workspace, "make a"), run(workspace, "make b")), line("make a && make b"), Allow},
		{"one of two commands", g(run(workspace, "make a")), line("make a && make b"), None},
		{"an input that is not seen", g(run(workspace, "python3 -")), line("python3 - <<E\nprint(1)\nE"), None},
		{"a pipe into what runs it", g(run(workspace, "python3 -"), prefix(workspace, "echo")), line("echo 'print(1)' | python3 -"), None},
		{"an input that is not seen, of a program that is not known", g(run(workspace, "psql db")), line("psql db <<E\ndrop\nE"), None},
		{"a word as an input", g(run(workspace, "psql db")), line("psql db <<< drop"), None},
		{"a pipe into a program that is not known", g(run(workspace, "psql db"), prefix(workspace, "echo"), run(workspace, "echo drop")), line("echo drop | psql db"), None},
		{"either of two", g(run(workspace, "make a"), run(workspace, "make b")), line("make a || make b"), Allow},
		{"a file fed to what runs it", g(run(workspace, "python3 -"), path("read", "/w/x")), line("python3 - < x"), None},
		{"a pipe between programs that read and print", g(prefix(workspace, "grep"), prefix(workspace, "head")), line("grep x y | head -3"), Allow},

		{"a file written", g(path("write", "/w/a.go")), onFile("fs.write", "/w/a.go"), Allow},
		{"a file edited", g(path("write", "/w/a.go")), onFile("tool.edit", "/w/a.go"), Allow},
		{"a file by a glob", g(path("write", "/w/**/*.go")), onFile("fs.write", "/w/x/a.go"), Allow},
		{"a file below a name that is a glob", g(path("write", `/w/\[id\]/a`)), onFile("fs.write", "/w/[id]/a"), Allow},
		{"a redirection with its file", g(run(workspace, "make"), path("write", "/w/log")), line("make > log"), Allow},

		{"another file", g(path("write", "/w/a.go")), onFile("fs.write", "/w/a.go2"), None},
		{"a file that a glob does not reach", g(path("write", "/w/*.go")), onFile("fs.write", "/w/x/a.go"), None},
		{"a class of characters that was a name", g(path("write", `/w/\[id\]/a`)), onFile("fs.write", "/w/i/a"), None},
		{"a link that leads elsewhere", g(path("write", "/w/a.go")), onLink("fs.write", "/w/a.go", "/etc/passwd"), None},
		{"a file that is not resolved", g(path("write", "/w/a.go")), onLink("fs.write", "/w/a.go", ""), None},
		{"a file written where reading was granted", g(path("read", "/w/a.go")), onFile("fs.write", "/w/a.go"), None},
		{"a file read where writing was granted", g(path("write", "/w/a.go")), onFile("fs.read", "/w/a.go"), None},
		{"a file removed where writing was granted", g(path("write", "/w/a.go")), onFile("tool.delete", "/w/a.go"), None},
		{"a folder searched where listing was granted", g(path("read", "/w")), onFile("tool.search", "/w"), None},
		{"a tool of any kind that names the file", g(path("write", "/w/a.go")), onFile("tool.other", "/w/a.go"), None},
		{"a redirection without its file", g(run(workspace, "make")), line("make > log"), None},
		{"a redirection to who knows where", g(run(workspace, "make"), path("write", "/w/**")), line("make > $X"), None},
		{"one of acphost's own files", g(path("write", "/w/**")), protected(onFile("fs.write", "/w/a")), None},
		{"a file in an action that is not understood", g(path("write", "/w/**")), unparsed(onFile("fs.write", "/w/a"), "{}"), None},

		{"a refused part", g(run(workspace, "make a"), run(workspace, "make b"), refusing(run(session, "make b"))), line("make a && make b"), Refuse},
		{"a refused command in another wrapping", g(refusing(run(session, "make b"))), line("sudo make b"), Refuse},
		{"a refused command with a variable", g(refusing(run(session, "make b"))), line("X=$Y make b"), Refuse},
		{"a refused file by its other name", g(refusing(path("write", "/w/a"))), onLink("fs.write", "/w/a", "/w/b"), Refuse},
		{"a refused file that leads there", g(refusing(path("write", "/w/b"))), onLink("fs.write", "/w/a", "/w/b"), Refuse},
		{"a refused file, in an action that is not understood", g(refusing(path("write", "/w/b"))), unparsed(onFile("fs.write", "/w/b"), ""), Refuse},
		{"near a refused command", g(refusing(run(session, "make b"))), line("make b c"), None},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, Options{})
			add(t, s, here, tt.grants...)
			got := s.Match(tt.action, here)
			if got.Verdict != tt.want {
				t.Errorf("got %v, want %v: %v", got.Verdict, tt.want, tt.action)
			}
			if (got.Verdict == None) != (len(got.Grants) == 0) {
				t.Errorf("%v with the grants %v", got.Verdict, got.Grants)
			}
		})
	}
}

func g(grants ...*supervisorv1.Grant) []*supervisorv1.Grant { return grants }

func TestExactly_CoversOneAction(t *testing.T) {
	dynamic := "for i in 1 2; do make $i; done"
	for _, tt := range []struct {
		name      string
		action    func() *permissionv1.Action
		near      []*permissionv1.Action
		wholeOnly bool
	}{
		{name: "a command", action: func() *permissionv1.Action { return line("npm test") }, near: actions(
			line("npm test x"), in(line("npm test"), "/x"), withEnv(line("npm test"), "A=b"))},
		{name: "two commands", action: func() *permissionv1.Action { return line("make a && make b") }, near: actions(line("make a && make c"))},
		{name: "a command and its file", action: func() *permissionv1.Action { return line("make > log") }, near: actions(line("make > other"))},
		{name: "a command with a variable", wholeOnly: true, action: func() *permissionv1.Action { return line("CC=x make") },
			near: actions(line("make"), line("CC=y make"))},
		{name: "a command in an environment", wholeOnly: true, action: func() *permissionv1.Action { return withEnv(line("make"), "CC=x") },
			near: actions(line("make"), withEnv(line("make"), "CC=y"), withEnv(line("make"), "CC=x", "LD=y"))},
		{name: "a line that is only known when it runs", wholeOnly: true, action: func() *permissionv1.Action { return line(dynamic) },
			near: actions(line(dynamic+" "), line("make 1"), in(line(dynamic), "/x"))},
		{name: "a line that cannot be taken apart", wholeOnly: true, action: func() *permissionv1.Action { return line("fish -c 'x'") },
			near: actions(line("fish -c 'y'"))},
		{name: "a line with an input", wholeOnly: true, action: func() *permissionv1.Action { return line("python3 <<E\n1\nE") },
			near: actions(line("python3 <<E\n2\nE"))},
		{name: "a wrapper that matters", wholeOnly: true, action: func() *permissionv1.Action { return line("sudo make") },
			near: actions(line("make"), line("sudo -u x make"))},
		{name: "a file", action: func() *permissionv1.Action { return onFile("fs.write", "/w/a*[x]{y}\\z") },
			near: actions(onFile("fs.write", "/w/ab[x]{y}\\z"), onFile("fs.read", "/w/a*[x]{y}\\z"))},
		{name: "a file removed", wholeOnly: true, action: func() *permissionv1.Action { return onFile("tool.delete", "/w/a") },
			near: actions(onFile("tool.delete", "/w/b"), onFile("tool.edit", "/w/a"))},
		{name: "an extension's method", wholeOnly: true, action: func() *permissionv1.Action { return call("_acme.com/x", `{"a":1}`) },
			near: actions(call("_acme.com/x", `{"a":2}`), call("_acme.com/y", `{"a":1}`))},
		{name: "what is not understood", wholeOnly: true,
			action: func() *permissionv1.Action { return unparsed(onFile("tool.edit", "/w/a"), `{"a":1}`) },
			near:   actions(unparsed(onFile("tool.edit", "/w/a"), `{"a":2}`), unparsed(onFile("tool.edit", "/w/b"), `{"a":1}`))},
		{name: "a tool's input", wholeOnly: true, action: func() *permissionv1.Action { return ofTool("mcp__db__show", "tool.other") },
			near: actions(ofTool("mcp__db__drop", "tool.other"), ofTool("", "tool.other"), ofTool("mcp__db__show", "tool.fetch"))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, Options{})
			grants, err := Exactly(tt.action(), here, session)
			if err != nil {
				t.Fatal(err)
			}
			if whole := grants[0].GetExactly() != ""; whole != tt.wholeOnly {
				t.Errorf("a grant of the whole: %v, want %v: %v", whole, tt.wholeOnly, grants)
			}
			add(t, s, here, grants...)
			again := tt.action()
			again.Title = "called something else"
			if got := s.Match(again, here); got.Verdict != Allow || len(got.Grants) != len(grants) {
				t.Errorf("the same action: got %v by %v", got.Verdict, got.Grants)
			}
			for _, near := range tt.near {
				if got := s.Match(near, here); got.Verdict != None {
					t.Errorf("got %v for %v", got.Verdict, near)
				}
			}
			elsewhere := here
			elsewhere.Workspace = "/other"
			if got := s.Match(tt.action(), elsewhere); got.Verdict != None {
				t.Errorf("after the session moved: got %v", got.Verdict)
			}
		})
	}
}

func actions(a ...*permissionv1.Action) []*permissionv1.Action { return a }

// ofTool is a call of some tool, always with the same input.
func ofTool(name, kind string) *permissionv1.Action {
	return &permissionv1.Action{Kind: kind, Agent: "claude", Tool: name, Title: "show", RawInput: `{"table":"users"}`}
}

func TestExactly_UnnamedToolNeedsSameTitle(t *testing.T) {
	withFile := onFile("tool.other", "/w/a")
	withFile.Title, withFile.RawInput = "show", `{"path":"/w/a"}`
	for name, show := range map[string]*permissionv1.Action{"an input alone": ofTool("", "tool.other"), "with what may be a file": withFile} {
		t.Run(name, func(t *testing.T) {
			s := open(t, Options{})
			grants, err := Exactly(show, here, session)
			if err != nil {
				t.Fatal(err)
			}
			add(t, s, here, grants...)
			if got := s.Match(show, here); got.Verdict != Allow {
				t.Errorf("the same: got %v", got.Verdict)
			}
			show.Title = "drop"
			if got := s.Match(show, here); got.Verdict != None {
				t.Errorf("under another title: got %v", got.Verdict)
			}
		})
	}
}

func TestExactly_RejectsUnidentifiedActions(t *testing.T) {
	for name, a := range map[string]*permissionv1.Action{
		"a title alone":               {Kind: "tool.other", Title: "Deploy"},
		"a command that is not named": unparsed(&permissionv1.Action{Kind: "tool.execute", Title: "make"}, ""),
		"an empty input":              unparsed(call("tool.fetch", "{}"), "{}"),
		"a change of mode":            call("tool.switch_mode", `{"mode":"yolo"}`),
		"a question":                  call("elicitation", `{"a":1}`),
		"acphost's own file":          protected(onFile("fs.write", "/w/a")),
		"no kind":                     call("", `{"a":1}`),
		"a text that may have been cut": command(strings.Repeat("x", 1<<20), []*permissionv1.SubCommand{{
			Argv: []string{"x"}, Dynamic: true}}, ""),
	} {
		t.Run(name, func(t *testing.T) {
			if grants, err := Exactly(a, here, session); err == nil {
				t.Errorf("got %v", grants)
			}
			if o := Widest(a, here); len(o.Grants) > 0 || o.Text != "" {
				t.Errorf("offered %q", o.Text)
			}
		})
	}
}

func TestMatch_RespectsScope(t *testing.T) {
	there := func(change func(*Where)) Where {
		w := here
		change(&w)
		return w
	}
	scopes := func(s, w, a, e Verdict) map[supervisorv1.GrantScope]Verdict {
		return map[supervisorv1.GrantScope]Verdict{turn: None, session: s, workspace: w, agent: a, everywhere: e}
	}
	for _, tt := range []struct {
		name string
		at   Where
		want map[supervisorv1.GrantScope]Verdict
	}{
		{"in the same turn", here, map[supervisorv1.GrantScope]Verdict{turn: Allow, session: Allow, workspace: Allow, agent: Allow, everywhere: Allow}},
		{"in the next turn", there(func(w *Where) { w.Turn++ }), scopes(Allow, Allow, Allow, Allow)},
		{"in another session of the same id", there(func(w *Where) { w.Scope = "scope-2" }), scopes(None, Allow, Allow, Allow)},
		{"without a session", there(func(w *Where) { w.Scope = "" }), scopes(None, Allow, Allow, Allow)},
		{"in another workspace", there(func(w *Where) { w.Scope, w.Workspace = "scope-2", "/v" }), scopes(None, None, Allow, Allow)},
		{"in another workspace of the same session", there(func(w *Where) { w.Workspace = "/v" }), scopes(None, None, Allow, Allow)},
		{"in a workspace that is not known", there(func(w *Where) { w.Workspace = "" }), scopes(None, None, None, None)},
		{"by another agent", there(func(w *Where) { w.Agent = "gemini" }), scopes(None, None, None, None)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for scope, want := range tt.want {
				s := open(t, Options{File: tempFile(t)})
				add(t, s, here, run(scope, "make"))
				if got := s.Match(line("make"), tt.at); got.Verdict != want {
					t.Errorf("%v: got %v, want %v", scope, got.Verdict, want)
				}
			}
		})
	}
}

func TestOffer_WidestDescribesReach(t *testing.T) {
	for _, tt := range []struct {
		name   string
		action *permissionv1.Action
		want   string
		covers []*permissionv1.Action
		not    []*permissionv1.Action
	}{
		{"a command that reads", line("git status -s"), "any `git status …` in this project (/w)",
			actions(line("git status"), line("git status -b")), actions(line("git log"), in(line("git status"), "/x"))},
		{"a command that does more", line("npm test"), "exactly `npm test` in this project (/w)",
			actions(line("npm test")), actions(line("npm test x"))},
		{"rm", line("rm -rf build"), "exactly `rm -rf build` in this project (/w)", nil, actions(line("rm -rf /"))},
		{"git push", line("git push"), "exactly `git push` in this project (/w)", nil, actions(line("git push -f"))},
		{"an interpreter", line("python3 x.py"), "exactly `python3 x.py` in this project (/w)", nil, actions(line("python3 y.py"))},
		{"a network client", line("curl https://a.example"), "exactly `curl https://a.example` in this project (/w)", nil,
			actions(line("curl https://b.example"))},
		{"a command that reads elsewhere", line("cat /etc/hosts"), "exactly `cat /etc/hosts` in this project (/w)", nil,
			actions(line("cat /etc/passwd"))},
		{"a folder below", in(line("make"), "/w/sub"), "exactly `make` in /w/sub in this project (/w)", nil, actions(line("make"))},
		{"a folder elsewhere", in(line("git status"), "/x"), "exactly `git status` in /x in this session", nil, actions(line("git status"))},
		{"several commands", line("git add a && git status && make"),
			"exactly `git add a`, any `git status …` and exactly `make` in this project (/w)", actions(line("make")), nil},
		{"a command and a file", line("make > log"), "exactly `make` in this project (/w), and writing /w/log in this session",
			nil, actions(line("make > x"))},
		{"a file that is written", onFile("fs.write", "/w/src/a.go"), "writing /w/src/a.go in this session", nil,
			actions(onFile("fs.write", "/w/src/b.go"))},
		{"a file that is read", onFile("fs.read", "/etc/hosts"), "reading /etc/hosts in this session", nil, nil},
		{"a line that is only known when it runs", line("make $X"), "exactly `make $X` in this session", nil, actions(line("make $Y"))},
		{"a command with a variable of the request's", withEnv(line("make"), "A=1"), "exactly `make` with A set in this session", nil,
			actions(line("make"), withEnv(line("make"), "A=2"))},
		{"a variable and a folder below", in(withEnv(line("make"), "A=1"), "/w/sub"), "exactly `make` in /w/sub with A set in this session", nil,
			actions(withEnv(line("make"), "A=1"), in(line("make"), "/w/sub"))},
		{"a folder below by a relative name", in(withEnv(line("make"), "A=1"), "sub"), "exactly `make` in /w/sub with A set in this session", nil, nil},
		{"the workspace by the agent's name for it", in(line("make $X"), "/link/w/"), "exactly `make $X` in this session", nil, nil},
		{"a folder that is not certain", in(line("make"), "/w/sub/.."), "exactly `make` in /w/sub/.. in this session", nil, actions(line("make"))},
		{"several variables", withEnv(line("make"), "A=1", "B=hunter2", "LANG"), "exactly `make` with A, B and LANG set in this session", nil, nil},
		{"many variables", withEnv(line("make"), "A=", "B=", "C=", "D=", "E=", "F=", "G="),
			"exactly `make` with A, B, C, D, E and 2 more set in this session", nil, nil},
		{"a variable that would not show", withEnv(line("make"), "A\x1b[2K\u202e=1"), "exactly `make` with A\\u{1b}[2K\\u{202e} set in this session", nil, nil},
		{"a variable with a long name", withEnv(line("make"), strings.Repeat("A", 100)+"=1"),
			"exactly `make` with " + safetext.Middle(strings.Repeat("A", 100), 60) + " set in this session", nil, nil},
		{"a variable that changes nothing", withEnv(line("make"), "NO_COLOR=1"), "exactly `make` in this project (/w)",
			actions(line("make")), nil},
		{"a file that is removed", onFile("tool.delete", "/w/a"), "exactly this request in this session", nil, nil},
		{"what would not show", words("make", "a\x1b[2K\u202eb"), "exactly `make 'a\\u{1b}[2K\\u{202e}b'` in this project (/w)", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := Widest(tt.action, here)
			if o.Text != tt.want {
				t.Errorf("got %q, want %q", o.Text, tt.want)
			}
			s := open(t, Options{File: tempFile(t)})
			add(t, s, here, o.Grants...)
			for _, a := range append(tt.covers, tt.action) {
				if got := s.Match(a, here); got.Verdict != Allow {
					t.Errorf("%v: got %v", a.GetCommand().GetText(), got.Verdict)
				}
			}
			for _, a := range tt.not {
				if got := s.Match(a, here); got.Verdict != None {
					t.Errorf("%v: got %v", a.GetCommand().GetText(), got.Verdict)
				}
			}
		})
	}
}

func TestRefusal_DescribesReach(t *testing.T) {
	for name, tt := range map[string]struct {
		action *permissionv1.Action
		want   string
	}{
		"a command":                  {line("make"), "exactly `make` in this session"},
		"a folder below":             {in(line("make"), "/w/sub"), "exactly `make` in /w/sub in this session"},
		"a variable and a folder":    {in(withEnv(line("make"), "A=1"), "sub"), "exactly `make` in /w/sub with A set in this session"},
		"two commands in a folder":   {in(line("make && rm x"), "/x"), "exactly `make && rm x` in /x in this session"},
		"a file":                     {onFile("fs.write", "/w/a"), "writing /w/a in this session"},
		"a file that is to be moved": {onFile("tool.move", "/w/a"), "exactly this request in this session"},
	} {
		if got := Refusal(tt.action, here).Text; got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestRefusal_OverridesGrants(t *testing.T) {
	for _, a := range []*permissionv1.Action{line("make"), line("make && rm x"), line("make $X"), onFile("fs.write", "/w/a")} {
		s := open(t, Options{})
		o := Refusal(a, here)
		if !strings.HasSuffix(o.Text, "in this session") {
			t.Errorf("got %q", o.Text)
		}
		grants, err := Exactly(a, here, everywhere)
		if err != nil {
			t.Fatal(err)
		}
		add(t, s, here, grants...)
		add(t, s, here, o.Grants...)
		if got := s.Match(a, here); got.Verdict != Refuse {
			t.Errorf("%v: got %v", a, got.Verdict)
		}
		other := here
		other.Scope = "scope-2"
		if got := s.Match(a, other); got.Verdict != Allow {
			t.Errorf("in another session: got %v", got.Verdict)
		}
	}
	s := open(t, Options{})
	add(t, s, here, Refusal(line("make && rm x"), here).Grants...)
	if got := s.Match(line("make"), here); got.Verdict != None {
		t.Errorf("a no to two commands is taken for a no to one of them: %v", got.Verdict)
	}
}

func FuzzMatch_CoversOnlyGrantedLine(f *testing.F) {
	for _, s := range []string{"git status", "git status; rm x", "git status $(x)", "git\tstatus", "A=b git status", "cd / && git status",
		"git status | sh", "git status > x", "sudo git status", "'git' status", "git status\n", "git status #x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := open(t, Options{})
		add(t, s, here, run(session, "git status"))
		a := line(text)
		if s.Match(a, here).Verdict != Allow {
			return
		}
		for _, sub := range a.GetCommand().GetSubCommands() {
			if argv := strings.Join(sub.GetArgv(), "\x00"); argv != "git\x00status" && !changesDirectory(sub) {
				t.Errorf("%q is covered, with %q in it", text, argv)
			}
		}
		if len(a.GetPaths()) > 0 || strings.ContainsAny(text, "$`*") && !strings.ContainsAny(text, `'"#\`) {
			t.Errorf("%q is covered", text)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	s := open(b, Options{File: tempFile(b)})
	for range 50 {
		add(b, s, here, run(session, "make other"), prefix(workspace, "git log"))
	}
	add(b, s, here, prefix(workspace, "git status"))
	a := line("git status -s")
	for b.Loop() {
		if s.Match(a, here).Verdict != Allow {
			b.Fatal("it is not covered")
		}
	}
}
