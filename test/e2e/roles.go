package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/acphost/acphost/test/wire"
)

// rolePrefix marks a command line of the test binary as an agent's.
const rolePrefix = "agent:"

// Role is the command line of an agent that this binary plays.
func Role(name string, args ...string) []string {
	exe, err := os.Executable()
	if err != nil {
		panic(err) // the platform cannot run these tests
	}
	return append([]string{exe, rolePrefix + name}, args...)
}

// playRole returns the exit status.
func playRole(args []string) int {
	switch name, args := args[0][len(rolePrefix):], args[1:]; name {
	case "puppet":
		return puppet(args[0], args[1:])
	case "silent":
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	case "older":
		return playOlder()
	case "mute":
		return mute()
	case "teller":
		return teller(args)
	case "browser":
		return playBrowser(args[0], args[1])
	case "subagent":
		return subagent(args[0], args[1])
	case "idles":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
		select {}
	}
	fmt.Fprintf(os.Stderr, "there is no role %q\n", args[0])
	return 2
}

// puppet joins its standard input and output to the socket of a test, which plays the agent. It ends when either side
// does.
//
//	stubborn   neither the end of its input nor a signal ends it
//	family     it has children: one in its own session, one whose parent has exited
//	hand:PATH  it has a Hand, which connects to the socket PATH
func puppet(socket string, how []string) int {
	stubborn := slices.Contains(how, "stubborn")
	if stubborn {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	}
	if slices.Contains(how, "family") {
		if err := family(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	for _, word := range how {
		if side, ok := strings.CutPrefix(word, handPrefix); ok {
			go func() {
				if err := serveHand(side); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
			}()
		}
	}
	if err := wire.Puppet(socket, stubborn); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// family leaves processes that ignore TERM and are hard to find: one in its own session, and one whose parent has
// exited.
func family() error {
	idle := Role("idles")
	own := exec.Command(idle[0], idle[1:]...)
	own.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := own.Start(); err != nil {
		return err
	}
	lost := exec.Command("sh", "-c", `"$0" "$1" </dev/null >/dev/null 2>&1 &`, idle[0], idle[1])
	lost.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return lost.Run()
}

// mute closes its output and lives on, deaf to everything.
func mute() int {
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	_ = os.Stdout.Close()
	for range terms { // each is ignored
	}
	return 1 // not reached: the channel is never closed
}
