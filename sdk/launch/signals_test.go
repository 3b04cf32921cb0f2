package launch_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/testkit"
)

func TestSIGTERM_FinishesCallInFlight(t *testing.T) {
	i := start(t, spec("handler"))
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		text string
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		text, err := callEcho(context.Background(), i, "read "+fifo)
		answered <- answer{text, err}
	}()
	w, err := os.OpenFile(fifo, os.O_WRONLY, 0) // returns when the call has opened the other end
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	if err := syscall.Kill(i.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "no new calls are taken after TERM", func() bool {
		_, err := callEcho(t.Context(), i, "x")
		return status.Code(err) == codes.Unavailable
	})
	if _, err := w.WriteString("finished"); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if a := <-answered; a.err != nil || a.text != "finished" {
		t.Errorf("the call in flight: %q, %v", a.text, a.err)
	}
	within(t, i.Done(), "Done")
	if err := i.Err(); err == nil || !strings.HasPrefix(err.Error(), "exited with status 0") {
		t.Errorf("Err = %v, want exit status 0", err)
	}
}

func TestHandler_StartedByHandPrintsHelp(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"without anything":       {nil, 2, "test 1.0 is a handler for acphost"},
		"with a wrong flag":      {[]string{"--lisen", "x"}, 2, "--help"},
		"without a secret":       {[]string{"--listen", "unix:///x"}, 2, "must authenticate its supervisor"},
		"asked for its version":  {[]string{"--version"}, 0, "test 1.0\n"},
		"asked for its versions": {[]string{"--version"}, 0, "plugin protocol 1\n"},
		"asked for help":         {[]string{"--help"}, 0, "--listen ADDRESS"},
		"where it cannot":        {[]string{"--listen", "unix:///dev/null/s", "--secret-file", secretFile(t)}, 1, "/dev/null/s"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(self()[0], c.args...)
			cmd.Env = append(os.Environ(), role+"=handler", noSleep)
			out, _ := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != c.status || !strings.Contains(string(out), c.want) {
				t.Errorf("status %d, want %d; printed %q, want %q", got, c.status, out, c.want)
			}
		})
	}
}
