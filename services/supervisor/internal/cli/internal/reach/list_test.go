package reach

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

func TestList_OmitsEndedSupervisors(t *testing.T) {
	dir := t.TempDir()
	listening := filepath.Join(dir, "listening.sock")
	l, err := net.Listen("unix", listening)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	killed := filepath.Join(dir, "killed.sock")
	k, err := net.ListenUnix("unix", &net.UnixAddr{Name: killed})
	if err != nil {
		t.Fatal(err)
	}
	k.SetUnlinkOnClose(false)
	_ = k.Close()
	for _, tt := range []struct {
		name, where string
		fails       error
		complaint   bool
	}{
		{"its socket is gone", filepath.Join(dir, "gone.sock"), status.Error(codes.Unavailable, "no such file"), false},
		{"no listener", killed, status.Error(codes.Unavailable, "connection refused"), false},
		{"it listens", listening, status.Error(codes.Unavailable, "it is busy"), true},
		{"it has failed", filepath.Join(dir, "gone.sock"), status.Error(codes.Internal, "broken"), true},
		{"it is elsewhere", "host.example:7443", status.Error(codes.Unavailable, "no route"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
			if err != nil {
				t.Fatal(err)
			}
			defer stderr.Close()
			call := &command.Call{Stderr: stderr, Terminal: func(*os.File) bool { return false }}
			all := []*Supervisor{{PID: 1, Where: tt.where}, {PID: 2, Where: listening}}
			got := List(t.Context(), call, all, "questions", func(_ context.Context, at *Supervisor) ([]string, error) {
				if at.PID == 1 {
					return nil, tt.fails
				}
				return []string{"question"}, nil
			})
			if len(got) != 1 || got[0].At.PID != 2 {
				t.Errorf("the list is %v", got)
			}
			text, _ := os.ReadFile(stderr.Name())
			if complained := strings.Contains(string(text), "supervisor 1 does not say"); complained != tt.complaint || (call.Status != 0) != tt.complaint {
				t.Errorf("status %d, and got %q", call.Status, text)
			}
		})
	}
}
