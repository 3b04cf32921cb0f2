package intent

import (
	"slices"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/dialect"
)

func TestStarted_IsCommand(t *testing.T) {
	s := Session{Agent: "a", SessionID: "s", Roots: []string{"/w"}}
	for name, c := range map[string]struct {
		start    ProgramStart
		commands []string // the programs of its simple commands
		unparsed bool
	}{
		"a program":            {ProgramStart{Args: []string{"ls", "-l"}, Dir: "/w"}, []string{"ls"}, false},
		"a line for a shell":   {ProgramStart{Args: []string{"/bin/bash", "-lc", "git status && rm x"}, Dir: "/w"}, []string{"git", "rm"}, false},
		"not all of it":        {ProgramStart{Args: []string{"ls"}, Dir: "/w", Cut: true}, []string{"ls"}, true},
		"an argument in bytes": {ProgramStart{Args: []string{"rm", "\xff"}, Dir: "/w"}, []string{"rm"}, true},
		"a variable in bytes":  {ProgramStart{Args: []string{"ls"}, Dir: "/w", Env: []string{"X=\xff"}}, []string{"ls"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := Started(s, c.start)
			var programs []string
			for _, sub := range a.GetCommand().GetSubCommands() {
				programs = append(programs, sub.GetArgv()[0])
			}
			if a.GetKind() != "terminal.create" || a.GetDoor() != permissionv1.Door_DOOR_KERNEL || !slices.Equal(programs, c.commands) || (a.GetUnparsed() != "") != c.unparsed {
				t.Errorf("got %v", a)
			}
		})
	}
}

func TestStarted_RemovesWrapperOfDialect(t *testing.T) {
	d := &dialect.Dialect{Wraps: []dialect.Wrap{{Options: []string{"-c"}, Before: "source * && eval "}}}
	s := Session{Agent: "a", SessionID: "s", Roots: []string{"/w"}, Configured: d}
	wrapped := ProgramStart{Args: []string{"zsh", "-c", "source /h/x && eval 'npm test'"}, Dir: "/w"}
	a := Unwrapped(s, wrapped, kept)
	if a == nil || a.GetCommand().GetText() != "npm test" {
		t.Fatalf("got %v", a)
	}
	asked := &permissionv1.Action{
		Kind: "tool.execute", Door: permissionv1.Door_DOOR_REQUEST, Agent: "a", SessionId: "s", Roots: []string{"/w"}, Command: a.GetCommand(),
	}
	if !Same(asked, a) {
		t.Error("it is not what was asked about")
	}
	if Same(asked, Started(s, wrapped)) {
		t.Error("the wrapping itself is what was asked about")
	}
	for _, other := range []ProgramStart{
		{Args: []string{"zsh", "-c", "source /h/x && eval 'npm test'"}, Dir: "/w", Cut: true},
		{Args: []string{"zsh", "-c", "npm test"}, Dir: "/w"},
		{},
	} {
		if got := Unwrapped(s, other, kept); got != nil {
			t.Errorf("%v: got %v", other, got)
		}
	}
	if got := Unwrapped(Session{Roots: []string{"/w"}}, wrapped, kept); got != nil {
		t.Errorf("of an agent that nobody knows: got %v", got)
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

func kept(string) bool { return true }
