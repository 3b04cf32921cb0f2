//go:build linux

// Command attacker is a hostile agent, or a hostile command of an agent's: it does what a test orders it to do, over the
// test's socket, and says how each thing that it tried went. Its first argument says which part it plays. It is for the
// tests of acphost, and harms nobody but whom a test names.
package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/acphost/acphost/test/wire"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "attacker: this program is for the tests of acphost: attacker PART ARGUMENTS")
		os.Exit(2)
	}
	if err := play(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "attacker: %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func play(part string, args []string) error {
	switch part {
	case "agent": // PUPPET HAND: an agent that the test plays, with a hand in its process
		go func() {
			if err := serve(args[1]); err != nil {
				fmt.Fprintf(os.Stderr, "attacker: hand: %v\n", err)
			}
		}()
		return wire.Puppet(args[0], false)
	case "hand": // HAND: does what it is told
		return serve(args[0])
	case "shell": // HAND TTY: a person's, at a terminal
		if err := sitAt(args[1]); err != nil {
			return err
		}
		return serve(args[0])
	case "container": // ERRNO CALLS COMMAND...: a command where a container's profile refuses calls
		return container(args)
	case "victim": // CALL: makes a system call of which another process writes the arguments
		return playVictim(args[0])
	case "relay": // HAND HOW: starts a hand, and ends before it
		return relay(args[0], args[1])
	case "idle": // lives until its input ends
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	case "nothing": // ends at once
		return nil
	case "canary": // FILE ...: leaves a file that says who ran
		return canary(args[0])
	}
	return fmt.Errorf("there is no such part")
}
