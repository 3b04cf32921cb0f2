package intent

import (
	"slices"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func TestStarted_IsCommand(t *testing.T) {
	s := Session{Agent: "a", SessionID: "s", Roots: []string{"/w"}}
	for name, c := range map[string]struct {
		start    ProgramStart
		programs []string // of its simple commands
		inLine   []string // of the simple commands in its line; nil: it has no line
		unparsed bool
	}{
		"a program":            {ProgramStart{Args: []string{"ls", "-l"}, Dir: "/w"}, []string{"ls"}, nil, false},
		"a line for a shell":   {ProgramStart{Args: []string{"/bin/bash", "-lc", "git status && rm x"}, Dir: "/w"}, []string{"/bin/bash"}, []string{"git", "rm"}, false},
		"git in a folder":      {ProgramStart{Args: []string{"git", "-C", "x", "push"}, Dir: "/w"}, []string{"git"}, nil, false},
		"not all of it":        {ProgramStart{Args: []string{"ls"}, Dir: "/w", Cut: true}, []string{"ls"}, nil, true},
		"an argument in bytes": {ProgramStart{Args: []string{"rm", "\xff"}, Dir: "/w"}, []string{"rm"}, nil, true},
		"a variable in bytes":  {ProgramStart{Args: []string{"ls"}, Dir: "/w", Env: []string{"X=\xff"}}, []string{"ls"}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			programsOf := func(a *permissionv1.Action) (programs []string) {
				for _, sub := range a.GetCommand().GetSubCommands() {
					programs = append(programs, sub.GetArgv()[0])
				}
				return programs
			}
			a, line := Started(s, c.start)
			programs := programsOf(a)
			if got := programsOf(line); !slices.Equal(got, c.inLine) {
				t.Errorf("in its line: got %q, want %q", got, c.inLine)
			}
			if a.GetKind() != "terminal.create" || a.GetDoor() != permissionv1.Door_DOOR_KERNEL || !slices.Equal(programs, c.programs) || (a.GetUnparsed() != "") != c.unparsed {
				t.Errorf("got %v", a)
			}
		})
	}
}

func TestSamePart_IsCommandOfLine(t *testing.T) {
	s := Session{Agent: "a", SessionID: "s", Roots: []string{"/w"}}
	for _, c := range []struct {
		line, dir string
		args      []string
		want      bool
	}{
		{"cd x && npm ci", "/w/x", []string{"npm", "ci"}, true},
		{"cd x && npm ci", "/w", []string{"npm", "ci"}, false},
		{"cd x && npm ci", "/w/x", []string{"npm", "ci", "evil"}, false},
		{"npm ci; cp a b > log", "/w", []string{"cp", "a", "b"}, true},
		{"sudo npm ci", "/w", []string{"npm", "ci"}, false},
		{"X=1 npm ci", "/w", []string{"npm", "ci"}, false},
		{"cp $FILE b", "/w", []string{"cp", "$FILE", "b"}, false},
		{"npm ci; for", "/w", []string{"npm", "ci"}, false},
	} {
		asked := s.action(permissionv1.Door_DOOR_REQUEST)
		asked.Kind = "tool.execute"
		s.command(asked, claim{line: c.line}, newPaths(s, asked))
		a, _ := Started(s, ProgramStart{Args: c.args, Dir: c.dir})
		if got := SamePart(asked, a); got != c.want {
			t.Errorf("%s, %q in %s: got %t, want %t", c.line, c.args, c.dir, got, c.want)
		}
		a.Command.Env = []string{"LD_PRELOAD=x"}
		if SamePart(asked, a) {
			t.Errorf("%s with another variable is the same", c.line)
		}
	}
}

func TestSame_EditCoversWriteOfProcess(t *testing.T) {
	path := func(access permissionv1.Access) []*permissionv1.PathAccess {
		return []*permissionv1.PathAccess{{Path: "/w/a", ResolvedPath: "/w/a", Access: access}}
	}
	s := Session{Agent: "a", SessionID: "s", Roots: []string{"/w"}, Place: func(p string) Place { return Place{Resolved: p, Inside: true} }}
	done := ChangedFile(s, "/w/a", permissionv1.Access_ACCESS_WRITE)
	for kind, want := range map[string]bool{"tool.edit": true, "tool.delete": true, "tool.move": true, "tool.read": false, "tool.execute": false} {
		asked := &permissionv1.Action{
			Kind: kind, Door: permissionv1.Door_DOOR_REQUEST, Agent: "a", SessionId: "s", Roots: []string{"/w"}, Paths: path(permissionv1.Access_ACCESS_WRITE),
		}
		if got := Same(asked, done); got != want {
			t.Errorf("%s: got %t, want %t", kind, got, want)
		}
	}
}

func TestConnected_NamesAddress(t *testing.T) {
	s := Session{Agent: "a", SessionID: "s", Place: func(p string) Place { return Place{Resolved: p, Protected: p == "/run/acphost.sock"} }}
	if a := Connected(s, "tcp", "127.0.0.1", 443, ""); a.GetKind() != "net.connect" || a.GetRawInput() != `{"network":"tcp","host":"127.0.0.1","port":443}` {
		t.Errorf("got %v", a)
	}
	if a := Connected(s, "unix", "", 0, "/run/acphost.sock"); len(a.GetPaths()) != 1 || !a.GetPaths()[0].GetProtected() {
		t.Errorf("got %v", a)
	}
}
