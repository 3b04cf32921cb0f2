// Package orphans is the process of a guard: it waits until the process that started it is dead, and then ends the
// processes that it left behind.
//
// A guard is the same binary as its parent, started again, and it only waits. Hence it takes control before the rest of
// the program is initialised: Go initialises a package as soon as its imports are initialised, and of several such
// packages the one whose path sorts first. This package imports little, so that the initialisation of the rest of the
// program costs a guard neither memory nor time. A test checks that.
package orphans

import (
	"bufio"
	"context"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/acphost/acphost/internal/proc"
)

// Command is the hidden argument that makes the binary a guard. The mark follows: the environment entry of the
// processes to end.
const Command = "guard-of-terminals"

// grace is the time between SIGTERM and SIGKILL, endTimeout the time limit for ending all orphans.
const (
	grace      = 2 * time.Second
	endTimeout = 60 * time.Second
)

func init() {
	if len(os.Args) == 3 && os.Args[1] == Command {
		run(os.Stdin, os.Args[2])
		os.Exit(0)
	}
}

// run is the main function of a guard.
func run(pipe io.Reader, mark string) {
	proc.SetName()
	_ = proc.Undumpable() // as termd is: its files in /proc must not be accessible to the guarded processes
	sessions := map[int]bool{}
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		// Atoi accepts the sign: "+7" is a session that has begun, "-7" a session that has ended.
		switch session, err := strconv.Atoi(lines.Text()); {
		case err != nil:
		case session > 1:
			sessions[session] = true
		default:
			delete(sessions, -session)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	endOrphans(ctx, mark, sessions)
}
