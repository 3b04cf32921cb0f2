package intent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"google.golang.org/protobuf/proto"
)

// linked is a workspace with symbolic links on disk, itself reached by one.
type linked struct {
	t *testing.T
	// base is real; ws is a link to real, a folder below base.
	base, ws, real, outside, own string
	asked                        []string // the paths that Place was asked about
}

func newLinked(t *testing.T) *linked {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &linked{t: t, base: base, ws: base + "/ws", real: base + "/real", outside: base + "/outside", own: base + "/own"}
	for _, dir := range []string{l.real + "/sub", l.outside + "/deep", l.own} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{l.real + "/.env", l.real + "/main.go", l.outside + "/f", l.outside + "/.env", l.own + "/policy"} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		l.ws: "real", l.real + "/innocent": ".env", l.real + "/twice": "innocent", l.real + "/way-in": "sub",
		l.real + "/way-out": l.outside + "/deep", l.real + "/-x": ".env", l.real + "/gone": l.outside + "/none",
		l.real + "/ours": l.own, l.real + "/tool": "/bin/rm", l.real + "/sub/up": "../.env", l.real + "/odd": "\xff",
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// place is where a path leads as the system sees it, and not as it reads.
func (l *linked) place(path string) Place {
	l.asked = append(l.asked, path)
	resolved, err := filepath.EvalSymlinks(path)
	if os.IsNotExist(err) && !strings.Contains(path, "..") {
		if to, err := os.Readlink(path); err == nil {
			resolved = to
		} else if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			resolved = filepath.Join(dir, filepath.Base(path))
		}
	}
	under := func(dir, file string) bool { return file == dir || strings.HasPrefix(file, dir+"/") }
	clean := filepath.Clean(path)
	return Place{Resolved: resolved, Inside: under(l.real, resolved) && (under(l.ws, clean) || under(l.real, clean)),
		Protected: under(l.own, clean) || under(l.own, resolved)}
}

func (l *linked) inSession() Session {
	return Session{Agent: "a", SessionID: "s", Roots: []string{l.ws}, ResolvedRoots: []string{l.real}, Place: l.place}
}

// call is a terminal's command, as an agent creates it.
func (l *linked) call(s Session, params map[string]any) *permissionv1.Action {
	l.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		l.t.Fatal(err)
	}
	a := Call(s, "terminal/create", "terminal.create", raw)
	if _, err := proto.Marshal(a); err != nil {
		l.t.Errorf("the action cannot be sent: %v", err)
	}
	return a
}

// led is where an action's words lead in short: "COMMAND.WORD path", with " outside" where it is.
func (l *linked) led(a *permissionv1.Action) []string {
	var of []string
	for i, sub := range a.GetCommand().GetSubCommands() {
		for _, word := range sub.GetResolvedWords() {
			short := fmt.Sprintf("%d.%d %s", i, word.GetWord(), strings.TrimPrefix(word.GetResolvedPath(), l.base))
			if !word.GetInsideRoots() {
				short += " outside"
			}
			of = append(of, short)
		}
	}
	return of
}

func TestWords_ResolveLinks(t *testing.T) {
	for name, tt := range map[string]struct {
		line string
		argv []string
		cwd  string
		want []string
	}{
		"a file":                              {line: "cat .env main.go none sub/none"},
		"a link":                              {line: "cat innocent", want: []string{"0.1 /real/.env"}},
		"a link to a link, by a path":         {line: "head -1 ./twice", want: []string{"0.2 /real/.env"}},
		"a link behind a folder that is one":  {line: "cat way-in/up", want: []string{"0.1 /real/.env"}},
		"a file behind a link":                {line: "cat way-in/none", want: []string{"0.1 /real/sub/none"}},
		"a link by its whole path":            {line: "cat ${ws}/innocent", want: []string{"0.1 /real/.env"}},
		"a link by its real path":             {line: "cat ${real}/innocent", want: []string{"0.1 /real/.env"}},
		"the root by its link":                {line: "ls ${ws} ${ws}/ ${ws}/sub ${real} . sub/.."},
		"a link to outside":                   {line: "ls way-out", want: []string{"0.1 /outside/deep outside"}},
		"a link to nothing":                   {line: "tee gone", want: []string{"0.1 /outside/none outside"}},
		"up behind a link":                    {line: "cat way-out/../.env", want: []string{"0.1 /outside/.env outside"}},
		"up behind a link, by its whole path": {line: "cat ${ws}/way-out/../.env", want: []string{"0.1 /outside/.env outside"}},
		"in a chain":                          {line: "ls && cat x innocent", want: []string{"1.2 /real/.env"}},
		"in a shell":                          {line: "sh -c 'cat innocent'", want: []string{"0.1 /real/.env"}},
		"executed":                            {argv: []string{"cat", "innocent"}, want: []string{"0.1 /real/.env"}},
		"an option's value":                   {line: "x --file=innocent", want: []string{"0.1 /real/.env"}},
		"a short option's value":              {line: "x -finnocent", want: []string{"0.1 /real/.env"}},
		"a short option's path":               {line: "x -f${ws}/innocent", want: []string{"0.1 /real/.env"}},
		"an operand with a name":              {line: "dd if=innocent", want: []string{"0.1 /real/.env"}},
		"a file of data":                      {line: "curl -d @innocent --data=@twice -d@innocent", want: []string{"0.2 /real/.env", "0.3 /real/.env", "0.4 /real/.env"}},
		"a URL":                               {line: "curl file://${ws}/innocent FILE://localhost${ws}/inno%63ent", want: []string{"0.1 /real/.env", "0.2 /real/.env"}},
		"a value behind letters":              {line: "x -abcfinnocent", want: []string{"0.1 /real/.env"}},
		"a value of a value":                  {line: "x --set=file=innocent", want: []string{"0.1 /real/.env"}},
		"a list":                              {line: "x -vinnocent:/x a,twice,b", want: []string{"0.1 /real/.env", "0.2 /real/.env"}},
		"a field's file":                      {line: "curl -F 'f=@innocent;type=x' -F 'f=<twice' --data-urlencode n@up", cwd: "${ws}", want: []string{"0.2 /real/.env", "0.4 /real/.env"}},
		"an option's name":                    {line: "cat -x"},
		"an operand that begins with a dash":  {line: "cat -- -x", want: []string{"0.2 /real/.env"}},
		"the program":                         {line: "./tool x", want: []string{"0.0 /bin/rm outside"}},
		"a program that PATH finds":           {line: "innocent"},
		"a dynamic word":                      {line: "cat $x/innocent twice", want: []string{"0.2 /real/.env"}},
		"after cd":                            {line: "cd sub && cat up", want: []string{"1.1 /real/.env"}},
		"after cd by a link":                  {line: "cd way-in && cat up", want: []string{"0.1 /real/sub", "1.1 /real/.env"}},
		"after cd to somewhere":               {line: "cd - ; cat innocent ${ws}/innocent", want: []string{"1.2 /real/.env"}},
		"in another directory":                {line: "cat up", cwd: "${ws}/sub", want: []string{"0.1 /real/.env"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLinked(t)
			expand := strings.NewReplacer("${ws}", l.ws, "${real}", l.real).Replace
			params := map[string]any{"command": expand(tt.line), "cwd": expand(tt.cwd)}
			if len(tt.argv) > 0 {
				params["command"], params["args"] = tt.argv[0], tt.argv[1:]
			}
			a := l.call(l.inSession(), params)
			want := tt.want
			for i := range want {
				want[i] = strings.ReplaceAll(want[i], "/bin/rm", realPath(t, "/bin/rm"))
			}
			if got := l.led(a); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			s := l.inSession()
			s.ResolvedRoots = nil // which Place knows too
			if got := l.led(l.call(s, params)); !slices.Equal(got, want) {
				t.Errorf("without resolved roots: got %q, want %q", got, want)
			}
		})
	}
}

func realPath(t *testing.T, path string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

func TestWords_ResolveProgramOfLine(t *testing.T) {
	l := newLinked(t)
	s := l.inSession()
	a := l.call(s, map[string]any{"command": "./tool > x"})
	s.Executed(a, []string{l.ws + "/tool"})
	if got, want := l.led(a), []string{"0.0 " + realPath(t, "/bin/rm") + " outside"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	c := a.GetCommand()
	if !slices.Equal(c.GetArgv(), []string{l.ws + "/tool"}) || c.GetText() != "./tool > x" || len(a.GetPaths()) != 1 || c.GetUnparsed() != "" {
		t.Errorf("got %v", a)
	}
	s.Executed(a, []string{"/bin/sh", "-c", "cat innocent >> x"})
	if got, want := l.led(a), []string{"0.1 /real/.env"}; !slices.Equal(got, want) || len(a.GetPaths()) != 1 {
		t.Errorf("got %q, want %q; paths %v", got, want, a.GetPaths())
	}
	s.Executed(a, nil)
	if a.GetCommand().GetUnparsed() == "" {
		t.Error("nothing to execute is said to be understood")
	}
	none := &permissionv1.Action{}
	if s.Executed(none, []string{"ls"}); none.GetCommand() != nil {
		t.Error("an action without a command has one now")
	}
}

func TestWords_OpaqueCommandHasNone(t *testing.T) {
	l := newLinked(t)
	if a := l.call(l.inSession(), map[string]any{"command": "exec -a x cat innocent"}); len(l.led(a)) > 0 {
		t.Errorf("got %q for words that are only known when they run", l.led(a))
	}
}

func TestWords_ReportProtectedPaths(t *testing.T) {
	for _, line := range []string{"cat ours/policy", "cp x ours", "tee < x ours/none", "x --out=ours/policy", "cd ours && rm policy"} {
		l := newLinked(t)
		a := l.call(l.inSession(), map[string]any{"command": line})
		if !slices.ContainsFunc(a.GetPaths(), func(p *permissionv1.PathAccess) bool {
			return p.GetProtected() && p.GetAccess() == permissionv1.Access_ACCESS_WRITE && strings.HasPrefix(p.GetResolvedPath(), l.own)
		}) {
			t.Errorf("%s: no path of %v is protected", line, a.GetPaths())
		}
	}
}

func TestWords_ReportProtectedPathAfterLimit(t *testing.T) {
	l := newLinked(t)
	a := l.call(l.inSession(), map[string]any{"command": "cat ours/policy" + strings.Repeat(" >>x", 10)})
	s := l.inSession()
	a.Paths = nil
	for range maxPaths {
		a.Paths = append(a.Paths, &permissionv1.PathAccess{Path: "/x"})
	}
	newPaths(s, a).words(a.GetCommand())
	if n := len(a.GetPaths()); n != maxPaths || !a.GetPaths()[n-1].GetProtected() || a.GetUnparsed() == "" {
		t.Errorf("%d paths, the last is %v, unparsed %q", n, a.GetPaths()[n-1], a.GetUnparsed())
	}
}

func TestWords_LimitNumber(t *testing.T) {
	l := newLinked(t)
	line := "cat"
	for i := range maxWords - 1 {
		line += fmt.Sprintf(" f%d", i)
	}
	line += strings.Repeat(" f0 -v --long -", 100) // known, or no path
	a := l.call(l.inSession(), map[string]any{"command": line + " innocent"})
	if got := l.led(a); len(got) != 1 || a.GetCommand().GetUnparsed() != "" {
		t.Errorf("at the bound: got %q, unparsed %q", got, a.GetCommand().GetUnparsed())
	}
	l.asked = nil
	a = l.call(l.inSession(), map[string]any{"command": line + " innocent twice"})
	if why := a.GetCommand().GetUnparsed(); why != "more words than are looked at" {
		t.Errorf("past the bound: unparsed is %q", why)
	}
	if len(l.asked) > maxWords+1 {
		t.Errorf("Place was asked %d times", len(l.asked))
	}
	a = l.call(l.inSession(), map[string]any{"command": "cat " + strings.Repeat("x", maxWord+1) + " innocent"})
	if got := l.led(a); len(got) != 1 || a.GetCommand().GetUnparsed() == "" {
		t.Errorf("a long word: got %q, unparsed %q", got, a.GetCommand().GetUnparsed())
	}
}

func TestWords_LimitLookups(t *testing.T) {
	l := newLinked(t)
	var line strings.Builder
	line.WriteString("cat")
	for i := range 100 {
		line.WriteString(" ")
		for j := range 30 {
			fmt.Fprintf(&line, "%d.%d,", i, j)
		}
	}
	a := l.call(l.inSession(), map[string]any{"command": line.String()})
	if why := a.GetCommand().GetUnparsed(); why != "more words than are looked at" || len(l.asked) > maxAsked+1 {
		t.Errorf("unparsed is %q, after %d questions", why, len(l.asked))
	}
	a = l.call(l.inSession(), map[string]any{"command": "cat " + strings.Repeat("a,b,", 100) + strings.Repeat("x:y;", 100)})
	if why := a.GetCommand().GetUnparsed(); why != "" {
		t.Errorf("a long list of few names: unparsed is %q", why)
	}
}

func TestWords_UnresolvableIsUnparsed(t *testing.T) {
	l := newLinked(t)
	s := l.inSession()
	s.Place = func(path string) Place {
		if strings.Contains(path, "loop") {
			return Place{}
		}
		return l.place(path)
	}
	for line, want := range map[string]bool{
		"cat loop": false, "cat x way-in/../loop": false, "x --file=loop": false,
		"cat x": true, "cat /loop": true, "echo loop" + strings.Repeat("x", 255): true,
	} {
		if why := l.call(s, map[string]any{"command": line}).GetCommand().GetUnparsed(); (why == "") != want {
			t.Errorf("%.30s: unparsed is %q", line, why)
		}
	}
}

func TestWords_OptionsNeedNoLookup(t *testing.T) {
	l := newLinked(t)
	l.call(l.inSession(), map[string]any{"command": "git log -p --stat --no-pager - --"})
	if len(l.asked) != 2 { // of "log", and of the folder of the repository
		t.Errorf("Place was asked about %q", l.asked)
	}
}

func TestWords_LinkToInvalidUTF8IsUnparsed(t *testing.T) {
	l := newLinked(t)
	if err := os.WriteFile(l.real+"/\xff", nil, 0o600); err != nil {
		t.Skipf("this file system has no names that are not UTF-8: %v", err)
	}
	for _, params := range []map[string]any{{"command": "cat odd"}, {"command": "ls > odd"}, {"command": "cd odd && ls"}, {"command": "ls", "cwd": l.ws + "/odd"}} {
		if a := l.call(l.inSession(), params); !strings.Contains(a.GetUnparsed(), "UTF-8") {
			t.Errorf("%v: unparsed is %q", params, a.GetUnparsed())
		}
	}
}

func TestDirectory_ResolvesLinks(t *testing.T) {
	for name, tt := range map[string]struct{ cwd, want string }{
		"the root":                {"${ws}", "${ws}"},
		"a folder":                {"${ws}/sub", "${ws}/sub"},
		"a folder that is to be":  {"${ws}/none", "${ws}/none"},
		"by the real root":        {"${real}/sub", "${real}/sub"},
		"relative":                {"sub", "${ws}/sub"},
		"a link":                  {"${ws}/way-in", "${real}/sub"},
		"a relative link":         {"way-in", "${real}/sub"},
		"a link to outside":       {"${ws}/way-out", "${outside}/deep"},
		"up behind a link":        {"${ws}/way-out/..", "${outside}"},
		"up, and the same":        {"${ws}/sub/../sub", "${ws}/sub/../sub"},
		"outside":                 {"${outside}", "${outside}"},
		"a file URL":              {"file://${ws}/way-in", "${real}/sub"},
		"one that leads nowhere":  {"${ws}/none/none", "${ws}/none/none"},
		"the session's directory": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLinked(t)
			expand := strings.NewReplacer("${ws}", l.ws, "${real}", l.real, "${outside}", l.outside).Replace
			params := map[string]any{"command": "ls", "cwd": expand(tt.cwd)}
			called := l.call(l.inSession(), params)
			if got := called.GetCommand().GetCwd(); got != expand(tt.want) {
				t.Errorf("got %s, want %s", got, expand(tt.want))
			}
			raw, err := json.Marshal(params)
			if err != nil {
				t.Fatal(err)
			}
			asked := Question(l.inSession(), acp.ToolCall{Kind: "execute", RawInput: raw})
			if got := asked.GetCommand().GetCwd(); got != expand(tt.want) {
				t.Errorf("asked: got %s, want %s", got, expand(tt.want))
			}
			if !Same(asked, called) {
				t.Errorf("the question and its call are not the same:\n%v\n%v", asked, called)
			}
			if dir := expand(tt.cwd); filepath.IsAbs(dir) && filepath.Clean(dir) == dir {
				real, err := filepath.EvalSymlinks(dir)
				if err == nil && SameBelow(called, dir, real) != (expand(tt.want) == dir) {
					t.Errorf("SameBelow(%s, %s) is %v", dir, real, expand(tt.want) != dir)
				}
			}
		})
	}
}

func TestSame_QuestionAndCallWithLinks(t *testing.T) {
	l := newLinked(t)
	asked := Question(l.inSession(), acp.ToolCall{Kind: "execute", RawInput: []byte(`{"command":["bash","-lc","cat innocent > way-in/x"],"cwd":"way-in"}`)})
	called := l.call(l.inSession(), map[string]any{"command": "cat innocent > way-in/x", "cwd": l.ws + "/way-in"})
	if !Same(asked, called) {
		t.Errorf("not the same:\n%v\n%v", asked, called)
	}
	protected := "cat ours/policy"
	asked = Question(l.inSession(), acp.ToolCall{Kind: "execute", RawInput: []byte(`{"command":"` + protected + `"}`)})
	if Same(asked, l.call(l.inSession(), map[string]any{"command": protected})) {
		t.Error("an answer covers a call on acphost's own files")
	}
}

func TestSameBelow_KnowsOnlyLinksOfRoots(t *testing.T) {
	a := &permissionv1.Action{Roots: []string{"/ws", "/two", "/three"}, ResolvedRoots: []string{"/real", ""}}
	for _, tt := range []struct {
		dir, real string
		want      bool
	}{
		{"", "/real", true}, {"", "/ws", true}, {"/ws/a", "/real/a", true}, {"/ws/a/", "/real/a", true}, {"/real/a", "/real/a", true},
		{"/ws/a", "/real/b", false}, {"/wsx", "/realx", false}, {"/two", "/real", false}, {"/three", "/three", true},
		{"/three/a", "/x/a", false}, {"/ws/l/..", "/elsewhere", false},
	} {
		if got := SameBelow(a, tt.dir, tt.real); got != tt.want {
			t.Errorf("SameBelow(%q, %q) is %v", tt.dir, tt.real, got)
		}
	}
	if !SameBelow(&permissionv1.Action{Roots: []string{"/"}, ResolvedRoots: []string{"/host"}}, "/a", "/host/a") {
		t.Error("a root that is the whole file system is not mapped")
	}
	if SameBelow(&permissionv1.Action{}, "", "/a") {
		t.Error("no directory is /a")
	}
}

func FuzzWords(f *testing.F) {
	f.Add("cat ../x --a=b -fx @y file:///z", "/ws/link")
	f.Add("cd a; ls", "..")
	f.Fuzz(func(t *testing.T, line, cwd string) {
		raw, _ := json.Marshal(map[string]string{"command": line, "cwd": cwd})
		s := inSession("")
		n := 0
		place := s.Place
		s.Place = func(path string) Place {
			n++
			if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
				t.Errorf("Place is asked about %q", path)
			}
			return place(path)
		}
		a := Call(s, "terminal/create", "terminal.create", raw)
		if _, err := proto.Marshal(a); err != nil {
			t.Errorf("the action cannot be sent: %v", err)
		}
		if n > maxPaths+8*maxWords {
			t.Errorf("Place was asked %d times", n)
		}
		for _, sub := range a.GetCommand().GetSubCommands() {
			for _, word := range sub.GetResolvedWords() {
				if int(word.GetWord()) >= len(sub.GetArgv()) || slices.Contains(sub.GetDynamicWords(), word.GetWord()) || !filepath.IsAbs(word.GetResolvedPath()) {
					t.Errorf("%v of %q", word, sub.GetArgv())
				}
			}
		}
	})
}
