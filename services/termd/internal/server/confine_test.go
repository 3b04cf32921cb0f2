package server

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

// TestSandboxStream_ServesOneCommand: a second command, or a command that is sent too late, does not run.
func TestSandboxStream_ServesOneCommand(t *testing.T) {
	var s confinements
	first, err := s.add(&terminalv1.Confinement{Id: "one", Reads: true, Env: []string{"HTTPS_PROXY=http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.add(&terminalv1.Confinement{Id: "one"}); status.Code(err) != codes.AlreadyExists {
		t.Errorf("a second stream with its id: %v", err)
	}
	for _, env := range []string{"", "=x", "A", "A=\x00"} {
		if _, err := s.add(&terminalv1.Confinement{Id: "two", Env: []string{env}}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("variable %q: %v", env, err)
		}
	}
	box, err := s.assign("one")
	if err != nil {
		t.Skipf("no sandbox here: %v", err)
	}
	defer box.Decisions.Close()
	if _, err := s.assign("one"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("taken a second time: %v", err)
	}
	s.remove(first) // which has no server
	late, err := s.add(&terminalv1.Confinement{Id: "late"})
	if err != nil {
		t.Fatal(err)
	}
	s.remove(late)
	if _, err := s.assign("late"); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("taken after the stream has ended: %v", err)
	}
}
