//go:build linux || darwin

package jobcontrol

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// asRole makes the test's binary play a part: a shell that has a terminal, or a program that the shell runs.
const asRole = "JOBCONTROL_TEST_ROLE"

func TestMain(m *testing.M) {
	role, what, _ := strings.Cut(os.Getenv(asRole), " ")
	switch role {
	case "shell":
		os.Exit(shell(what))
	case "program":
		program(what)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// shell runs a program as a job in the background of its terminal, and continues it in the foreground whenever it stops.
func shell(what string) int {
	signal.Ignore(syscall.SIGTTOU) // of a terminal that it has lent
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asRole+"=program "+what)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	for stopped := false; ; stopped = true {
		if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil {
			fmt.Println(err)
			return 1
		}
		if !status.Stopped() {
			if !stopped || status.ExitStatus() != 0 {
				fmt.Println("shell: it was not stopped, or ended badly:", status)
				return 1
			}
			return 0
		}
		fmt.Println("shell: it is stopped")
		if err := unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, pid); err != nil {
			fmt.Println(err)
			return 1
		}
		_ = syscall.Kill(-pid, syscall.SIGCONT)
	}
}

func program(what string) {
	switch what {
	case "awaits":
		fmt.Println("program: in the foreground", Foreground(os.Stdin))
		err := AwaitForeground(context.Background(), os.Stdin)
		fmt.Println("program: in the foreground", Foreground(os.Stdin), err)
	case "stops":
		fmt.Println("program: was stopped", Stop())
	case "lends":
		signal.Notify(make(chan os.Signal, 1), Signals()...)
		if err := AwaitForeground(context.Background(), os.Stdin); err != nil {
			fmt.Println(err)
		}
		lends(context.Background(), Stop)
	case "lends alone":
		lends(context.Background(), Stop)
	case "lends for a time":
		ctx, stop := context.WithCancel(context.Background())
		interrupted := make(chan os.Signal, 1)
		signal.Notify(interrupted, syscall.SIGUSR1)
		go func() { <-interrupted; stop() }()
		lends(ctx, Stop)
	}
}

// editor plays a command in the foreground of the terminal: it stops, and then waits for Ctrl-C.
const editor = `trap 'got=1; echo command: interrupted' INT; trap : TERM
echo command: begins
kill -s TSTP $$
echo command: goes on
until test -n "$got"; do sleep 0.02; done
test -z "$PARENT" || { echo command: stays; exec 2>/dev/null; kill -s USR1 $PPID; while :; do sleep 600; done; }
exit 7`

// lends has a command borrow the terminal.
func lends(ctx context.Context, stop func() bool) {
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // it would be another job's
	cmd := exec.Command("/bin/sh", "-c", editor)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if stays, _ := strings.CutPrefix(os.Getenv(asRole), "program "); stays == "lends for a time" {
		cmd.Env = append(os.Environ(), "PARENT=1")
	}
	var b Runner
	ended, err := b.Run(ctx, os.Stdin, cmd, stop)
	fmt.Println("program: in the foreground", Foreground(os.Stdin), ended, err)
}

// played returns the output of a role on its own terminal.
func played(t *testing.T, role string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asRole+"="+role)
	terminal, err := pty.Start(cmd)
	if err != nil {
		t.Skip("no pseudo-terminal: ", err)
	}
	defer terminal.Close()
	var text strings.Builder
	for lines := bufio.NewScanner(terminal); lines.Scan(); { // until all of its processes are gone
		text.WriteString(strings.TrimPrefix(strings.TrimSpace(lines.Text()), "^C") + "\n")
		if strings.Contains(lines.Text(), "command: goes on") {
			if _, err := terminal.WriteString("\x03"); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v:\n%s", err, text.String())
	}
	return text.String()
}

func TestForeground_WaitsInBackground(t *testing.T) {
	want := "program: in the foreground false\nshell: it is stopped\nprogram: in the foreground true <nil>\n"
	if got := played(t, "shell awaits"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestStop_WaitsForShell(t *testing.T) {
	want := "shell: it is stopped\nprogram: was stopped true\n"
	if got := played(t, "shell stops"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestStop_ReturnsWithoutShell(t *testing.T) {
	if got, want := played(t, "program stops"), "program: was stopped false\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestForeground_IgnoresOtherFiles(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if !Foreground(r) {
		t.Error("a pipe is reported as another job's")
	}
	if err := AwaitForeground(t.Context(), r); err != nil {
		t.Error(err)
	}
}

func TestBorrower_RunsCommandAsOwnJob(t *testing.T) {
	want := `shell: it is stopped
command: begins
shell: it is stopped
command: goes on
command: interrupted
program: in the foreground true {7 } <nil>
`
	if got := played(t, "shell lends"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestBorrower_ContinuesWithoutShell(t *testing.T) {
	want := "command: begins\ncommand: goes on\ncommand: interrupted\nprogram: in the foreground true {7 } <nil>\n"
	if got := played(t, "program lends alone"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestBorrower_EndsWithContext(t *testing.T) {
	want := "command: begins\ncommand: goes on\ncommand: interrupted\ncommand: stays\nprogram: in the foreground true {-1 SIGKILL} <nil>\n"
	if got := played(t, "program lends for a time"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestBorrower_StartError(t *testing.T) {
	var b Runner
	b.Suspend() // without a command
	if _, err := b.Run(t.Context(), os.Stdin, exec.Command("/no/such/program"), Stop); err == nil {
		t.Error("it is reported as run")
	}
}
