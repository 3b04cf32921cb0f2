package proc

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// round limits how long End takes to notice a newly forked process or an ended context.
const round = 50 * time.Millisecond

// End ends all processes that list returns, and those that it returns later: it sends SIGTERM to each (and SIGCONT to
// stopped ones), waits up to grace, then sends SIGKILL until two lists in a row are empty. With a grace of 0 or less it
// sends SIGKILL at once. It returns nil when no process is left.
//
// End reaps nothing: list must omit zombies, as the lists of this package do. End signals a process through a handle
// that it opens between two lists that both contain the process, so it never signals another process with the same pid.
//
// If ctx ends first, the error wraps its cause and names the processes that are left. ctx should have a deadline: a
// process in uninterruptible sleep survives SIGKILL while it sleeps.
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
			_ = targets.signal(syscall.SIGTERM, asked) // SIGKILL follows
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

// process identifies a process even after its pid is reused.
type process struct {
	pid   int
	start uint64
}

// targets are processes that can be signalled safely.
type targets []target

func (t targets) pids() []int {
	pids := make([]int, len(t))
	for i := range t {
		pids[i] = t[i].pid
	}
	return pids
}

// signal sends sig to each process that is not in done, and adds it to done. It fails only if no process could be
// signalled: one that may not be signalled (a program that changed its user) does not protect the others.
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

// aim opens handles of the processes that list returns, and keeps those that a second list contains.
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
