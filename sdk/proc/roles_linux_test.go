package proc_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/sdk/proc"
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
	}
	return 64
}

// playSubreaper runs a shell script beneath a subreaper, says when the script has said "ready", and reaps what it
// adopts until its stdin ends.
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
	select {}
}
