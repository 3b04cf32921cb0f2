package terminal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/panics"
)

// Bounds on how long the ending of processes may take. A process in uninterruptible sleep survives SIGKILL for as long
// as it sleeps; nobody can be made to wait for that.
const (
	endTime    = 20 * time.Second // beyond the grace
	closeTime  = 3500 * time.Millisecond
	closeGrace = 1500 * time.Millisecond
)

// Close ends everything: what still runs is ended with it, and it returns when all of it is dead, or after 3.5 s at most
// for what cannot be killed. Nothing can be created any more. A second Close does nothing.
func (s *Terminals) Close() { s.closing.Do(s.close) }

func (s *Terminals) close() {
	s.mu.Lock()
	s.closed = true
	var all []*Terminal
	for _, t := range s.leaders {
		all = append(all, t)
		s.release(t)
	}
	for t, timer := range s.forget {
		if timer.Stop() {
			delete(s.forget, t)
			delete(s.byID, t.id)
			t.free()
		}
	}
	s.mu.Unlock()

	// Those on their way out may have been given more time than there is now.
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	var ends sync.WaitGroup
	for _, t := range all {
		ends.Go(panics.Guard(s.log, "ending the processes of a terminal", func() { _ = t.tree.end(ctx, closeGrace) })) // dispose tells what it could not end
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		defer panics.Recover(s.log, "waiting for terminals to end")
		ends.Wait()
		s.busy.Wait()
	}()
	select {
	case <-finished:
	case <-ctx.Done():
		s.log.Warn("some processes could not be ended")
	}
	s.stopReaper()
}

// grace is how long processes have between SIGTERM and SIGKILL; no longer than most once everything is ending.
func (s *Terminals) grace(most time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return min(s.limits.Grace, most)
	}
	return s.limits.Grace
}

// endTree ends everything that a terminal's command started.
func (s *Terminals) endTree(t *Terminal) error {
	grace := s.grace(closeGrace)
	ctx, cancel := context.WithTimeoutCause(context.Background(), grace+endTime, fmt.Errorf("not dead %s after SIGKILL", endTime))
	defer cancel()
	if err := t.tree.end(ctx, grace); err != nil {
		s.log.Error("a terminal's processes could not be ended", "terminal", t.id, "error", err)
		return err
	}
	return nil
}

// dispose does what is left to do for a released terminal.
func (s *Terminals) dispose(t *Terminal) {
	e := t.end()
	<-e.done
	if t.wall != nil {
		t.wall.Stop()
	}
	if e.err == nil {
		<-t.exited
	}
	_ = t.master.Close()
	<-t.drained
	<-t.dead // only what cannot be killed is waited for here
	t.tree.retire()
	t.leader.reap()
	if s.guard != nil {
		s.guard.Remove(t.leader.pid)
	}

	s.mu.Lock()
	delete(s.leaders, t.leader.pid)
	t.group.going--
	s.prune(t.group)
	s.active--
	if s.closed {
		delete(s.byID, t.id)
		t.free()
	} else {
		s.forget[t] = time.AfterFunc(s.retention, panics.Guard(s.log, "forgetting a released terminal", func() { s.forgetNow(t) }))
	}
	s.mu.Unlock()
	s.sweep()
}

// forgetNow ends a released terminal's afterlife.
func (s *Terminals) forgetNow(t *Terminal) {
	s.mu.Lock()
	delete(s.forget, t)
	delete(s.byID, t.id)
	s.mu.Unlock()
	t.free()
}
