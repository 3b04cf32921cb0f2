package proc

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// round bounds how long a process that was forked meanwhile, or an ended context, goes unnoticed.
const round = 50 * time.Millisecond

// End ends all the processes that list names, and those that it comes to name while they are being ended: SIGTERM to
// each (and SIGCONT to those that are stopped), up to grace for them to go, then SIGKILL until two lists in a row are
// empty. A grace of 0 or less goes straight to SIGKILL. It returns nil when none is left.
//
// It reaps nothing: list must leave out zombies, as the lists of this package do. A process is signalled through a
// handle that is taken between two lists that both name it, so one that merely got the same pid is never hit.
//
// When ctx ends first the error wraps its cause and names the processes that are left. Give a ctx with a deadline: a
// process in uninterruptible sleep survives SIGKILL for as long as it sleeps.
func End(ctx context.Context, list func() ([]int, error), grace time.Duration) error {
	deadline := time.Now().Add(grace)
	asked := map[process]bool{}
	for empty := 0; ; {
		targets, err := aim(list)
		if err != nil {
			return fmt.Errorf("end processes: %w", err)
		}
		if len(targets) == 0 {
			if empty++; empty == 2 {
				return nil
			}
			continue
		}
		empty = 0
		wait := round
		if left := time.Until(deadline); left > 0 {
			_ = targets.signal(syscall.SIGTERM, asked) // SIGKILL has the last word
			wait = min(wait, left)
		} else {
			err = targets.signal(syscall.SIGKILL, nil)
		}
		targets.awaitOne(ctx, wait)
		pids := targets.pids()
		targets.close()
		switch {
		case err != nil:
			return fmt.Errorf("end processes %v: %w", pids, err)
		case ctx.Err() != nil:
			return fmt.Errorf("end processes: %w; still there: %v", context.Cause(ctx), pids)
		}
	}
}

// process names a process beyond the life of its pid.
type process struct {
	pid   int
	start uint64
}

// targets are processes that can be signalled without a mistake.
type targets []target

func (t targets) pids() []int {
	pids := make([]int, len(t))
	for i := range t {
		pids[i] = t[i].pid
	}
	return pids
}

// signal sends sig to each, but not to those in done, to which it adds who was sent one. It fails only if nobody could
// be signalled: one that may not be (a program that changed its user) does not save the others.
func (t targets) signal(sig syscall.Signal, done map[process]bool) error {
	var failed error
	sent := false
	for i := range t {
		if done != nil {
			if done[t[i].process] {
				continue
			}
			done[t[i].process] = true
		}
		if err := t[i].signal(sig); err == nil {
			sent = true
		} else if failed == nil {
			failed = fmt.Errorf("send %s to process %d: %w", SignalName(sig), t[i].pid, err)
		}
	}
	if sent {
		return nil
	}
	return failed
}

// aim takes handles of what list names, and keeps those that list names again.
func aim(list func() ([]int, error)) (targets, error) {
	first, err := list()
	if err != nil || len(first) == 0 {
		return nil, err
	}
	var taken targets
	for _, pid := range first {
		t, ok, err := take(pid)
		if err != nil {
			taken.close()
			return nil, err
		}
		if ok {
			taken = append(taken, t)
		}
	}
	second, err := list()
	if err != nil {
		taken.close()
		return nil, err
	}
	still := make(map[int]bool, len(second))
	for _, pid := range second {
		still[pid] = true
	}
	kept := taken[:0]
	for _, t := range taken {
		if still[t.pid] {
			kept = append(kept, t)
		} else {
			t.close()
		}
	}
	return kept, nil
}

func (t targets) close() {
	for i := range t {
		t[i].close()
	}
}
