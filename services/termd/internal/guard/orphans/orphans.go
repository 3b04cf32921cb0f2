// Package orphans is the process of a guard: it waits until the process that started it is dead, and then ends what that one
// left behind.
//
// A guard is the same binary as its maker, started again, and it only waits. Hence it takes the process over before the rest
// of the program is initialised: Go initialises a package as soon as those are that it imports, and of several the one first
// whose path sorts first. This package imports little, and what the rest of the program prepares costs a guard neither
// memory nor time. A test watches over that.
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

// Command is the hidden argument that makes the binary a guard. The mark follows: the environment entry of those to end.
const Command = "guard-of-terminals"

// grace is how long the orphans get between SIGTERM and SIGKILL, and patience how long they get in all.
const (
	grace    = 2 * time.Second
	patience = 60 * time.Second
)

func init() {
	if len(os.Args) == 3 && os.Args[1] == Command {
		run(os.Stdin, os.Args[2])
		os.Exit(0)
	}
}

// run is the guard's whole life.
func run(life io.Reader, mark string) {
	proc.TakeName()
	_ = proc.Undumpable() // as termd is: the files of its /proc belong to nobody that it guards
	sessions := map[int]bool{}
	lines := bufio.NewScanner(life)
	for lines.Scan() {
		// Atoi takes the sign: "+7" is a session that has begun, "-7" one that is over.
		switch session, err := strconv.Atoi(lines.Text()); {
		case err != nil:
		case session > 1:
			sessions[session] = true
		default:
			delete(sessions, -session)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	endOrphans(ctx, mark, sessions)
}
