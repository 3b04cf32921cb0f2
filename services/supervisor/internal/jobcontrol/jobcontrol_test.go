//go:build linux || darwin

package jobcontrol

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
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

// shell runs a program as a job in the background of its terminal, waits until it stops and continues it in the foreground.
func shell(what string) int {
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
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		fmt.Println("the program was not stopped:", err)
		return 1
	}
	fmt.Println("shell: it is stopped")
	if err := unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, pid); err != nil {
		fmt.Println(err)
		return 1
	}
	_ = syscall.Kill(-pid, syscall.SIGCONT)
	_, err := syscall.Wait4(pid, &status, 0, nil)
	if err != nil || status.ExitStatus() != 0 {
		return 1
	}
	return 0
}

func program(what string) {
	switch what {
	case "awaits":
		fmt.Println("program: in the foreground", Foreground(os.Stdin))
		err := Await(context.Background(), os.Stdin)
		fmt.Println("program: in the foreground", Foreground(os.Stdin), err)
	case "stops":
		fmt.Println("program: was stopped", Stop())
	}
}

// played is what a role prints on a terminal that is its own.
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
		text.WriteString(strings.TrimSpace(lines.Text()) + "\n")
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v:\n%s", err, text.String())
	}
	return text.String()
}

func TestAProgramInTheBackgroundIsStoppedUntilItHasTheTerminal(t *testing.T) {
	want := "program: in the foreground false\nshell: it is stopped\nprogram: in the foreground true <nil>\n"
	if got := played(t, "shell awaits"); got != want {
		t.Errorf("it went\n%swant\n%s", got, want)
	}
}

func TestAProgramStopsUntilItsShellContinuesIt(t *testing.T) {
	want := "shell: it is stopped\nprogram: was stopped true\n"
	if got := played(t, "shell stops"); got != want {
		t.Errorf("it went\n%swant\n%s", got, want)
	}
}

func TestAProgramWithoutAShellDoesNotStopForEver(t *testing.T) {
	if got, want := played(t, "program stops"), "program: was stopped false\n"; got != want {
		t.Errorf("it went\n%swant\n%s", got, want)
	}
}

func TestWhatIsNotTheProcesssOwnTerminalHasNoJobs(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if !Foreground(r) {
		t.Error("a pipe is said to be another job's")
	}
	if err := Await(t.Context(), r); err != nil {
		t.Error(err)
	}
}
