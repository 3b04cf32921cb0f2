package proc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

func signalZero(pid int) error { return unix.Kill(pid, 0) }

func playLinux(role string, args []string) int {
	switch role {
	case "subreaper":
		return playSubreaper(args[0])
	case "undumpable":
		return playUndumpable()
	case "threadless":
		return playThreadless()
	case "adopter":
		return playAdopter()
	case "reaper":
		return playReaper()
	case "limited":
		limit, _ := strconv.ParseUint(args[0], 10, 64)
		return playLimited(limit)
	case "look":
		_, listed := proc.Descendants(os.Getpid())
		_, counted := proc.Filters(os.Getpid())
		_, orphaned := proc.Orphans(nil)
		_, reaped := proc.ReapAdopted(func(int) bool { return false })
		_, shown := proc.CommandLine(os.Getpid())
		above := proc.Ancestry(os.Getpid(), func(int) (bool, error) { return false, nil })
		for _, err := range []error{proc.ProcSupported(), listed, counted, orphaned, reaped, shown, above} {
			if !errors.Is(err, proc.ErrUnsupported) {
				fmt.Println("not refused:", err)
			}
		}
		return 0
	case "rename":
		if err := os.Rename(args[0], args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	case "probe-filter":
		if err := json.NewEncoder(os.Stdout).Encode(probeFilter()); err != nil {
			return 1
		}
		return 0
	}
	return 64
}

// playSubreaper runs a shell script below a subreaper, prints "ready" when the script has printed it, and reaps adopted
// processes until its stdin ends.
func playSubreaper(script string) int {
	if err := proc.Subreaper(); err != nil {
		return 1
	}
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, syscall.SIGCHLD)
	cmd := exec.Command("sh", "-c", script)
	cmd.Stdout = os.Stdout
	if err := cmd.Start(); err != nil {
		return 1
	}
	waited := make(chan struct{})
	go func() { _ = cmd.Wait(); close(waited) }()
	eof := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); close(eof) }()
	for {
		select {
		case <-sigchld:
			if _, err := proc.ReapAdopted(func(pid int) bool { return pid == cmd.Process.Pid }); err != nil {
				return 1
			}
		case <-eof:
			return 0
		}
	}
}

func playUndumpable() int {
	if err := proc.Undumpable(); err != nil {
		return 1
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil {
		return 1
	}
	fmt.Println(dumpable)
	return 0
}

// playThreadless ends its first thread and lives on in another one: what ps shows is a zombie.
func playThreadless() int {
	fmt.Println("ready")
	_ = os.Stdout.Close()
	exitFirstThread()
	for { // not select {}: Go may find that nothing runs any more, and end the process
		_, _ = unix.Select(0, nil, nil, nil, nil)
	}
}

// playLimited sets its process limit to a value with enough room, starts a process that must leave room, and prints its
// limit.
func playLimited(limit uint64) int {
	fail := func(err error) int { fmt.Fprintln(os.Stderr, err); return 1 }
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &now); err != nil {
		return fail(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: limit, Max: now.Max}); err != nil {
		return fail(err)
	}
	cmd := exec.Command("grep", "Max processes", "/proc/self/limits")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err := proc.Confine(proc.Confinement{}, func(proc.Restrictions) error {
		attr := &os.ProcAttr{Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: cmd.SysProcAttr}
		_, err := proc.StartLimited(attr.Sys, func() (int, error) {
			p, err := os.StartProcess(cmd.Path, cmd.Args, attr)
			if err != nil {
				return 0, err
			}
			cmd.Process = p
			return p.Pid, nil
		})
		return err
	})
	if err != nil {
		return fail(err)
	}
	state, err := cmd.Process.Wait()
	if err != nil {
		return fail(err)
	}
	return state.ExitCode()
}
