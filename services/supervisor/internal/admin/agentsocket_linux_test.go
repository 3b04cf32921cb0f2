package admin_test

import (
	"bufio"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
)

// serveIn starts a command that prints "serving" and ends when its stdin is closed.
func serveIn(t *testing.T, cmd *exec.Cmd, start func() error) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "serving\n" {
		t.Fatalf("got %q, %v", line, err)
	}
}

func TestFind_RefusesSocketOfAgent(t *testing.T) {
	asks := func(t *testing.T, socket, want string) {
		t.Helper()
		found := client.Find(t.Context(), nil, socket)
		if len(found) != 1 {
			t.Fatalf("found %v", found)
		}
		var doubt *client.DoubtError
		if errors.As(found[0].Err, &doubt) != (want != "") || want != "" && !strings.Contains(doubt.Error(), want) {
			t.Fatalf("the error is %v, want %q", found[0].Err, want)
		}
		conn, err := found[0].Dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = supervisorv1.NewSupervisorStateServiceClient(conn).GetStatus(t.Context(), &supervisorv1.GetStatusRequest{})
		if (status.Code(err) == codes.Unavailable) != (want != "") {
			t.Errorf("a call: %v", err)
		}
		if want == "" {
			return
		}
		named := found[0].Named(t.Context())
		if named.Err != nil || named.Status == nil || named.PID != doubt.PID {
			t.Errorf("named by a person it is %+v", named)
		}
	}
	t.Run("a person's", func(t *testing.T) { asks(t, serve(t), "") })
	t.Run("below an agent", func(t *testing.T) {
		dir := testkit.ShortDir(t)
		posing := filepath.Join(dir, "posing.sock")
		// Its output is the supervisor's, and it ends when the agent ends.
		cmd := command(t, "supervisor", filepath.Join(dir, "own.sock"),
			"mkfifo "+dir+"/in; exec 3<>"+dir+"/in; env -i GORACE=atexit_sleep_ms=0 "+testkit.Self(t)+" supervisor "+posing+" '' <&3")
		serveIn(t, cmd, cmd.Start)
		asks(t, posing, "above it is")
		asks(t, filepath.Join(dir, "own.sock"), "")
	})
	t.Run("in an agent's sandbox", func(t *testing.T) {
		if err := proc.ConfineSupported(); err != nil {
			t.Skip(err)
		}
		posing := filepath.Join(testkit.ShortDir(t), "posing.sock")
		cmd := command(t, "supervisor", posing, "")
		serveIn(t, cmd, func() (err error) {
			_ = proc.Confine(proc.Confinement{}, func(proc.Restrictions) error { err = cmd.Start(); return err })
			return err
		})
		asks(t, posing, "seccomp filters")
	})
	t.Run("left to a child", func(t *testing.T) {
		posing := filepath.Join(testkit.ShortDir(t), "posing.sock")
		cmd := command(t, "pass", posing)
		serveIn(t, cmd, cmd.Start)
		if _, err := cmd.Process.Wait(); err != nil {
			t.Fatal(err)
		}
		found := client.Find(t.Context(), nil, posing)
		if len(found) != 1 || !errors.As(found[0].Err, new(*client.DoubtError)) || !strings.Contains(found[0].Err.Error(), "left the socket") {
			t.Errorf("found %+v", found)
		}
	})
}
