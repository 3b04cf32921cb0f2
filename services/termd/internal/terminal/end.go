package terminal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/panics"
)

// Time limits for ending processes. A process in uninterruptible sleep survives SIGKILL while it sleeps; callers must
// not wait for that.
const (
	endTimeout   = 20 * time.Second // beyond the grace
	closeTimeout = 3500 * time.Millisecond
	closeGrace   = 1500 * time.Millisecond
)

// Close ends all commands, and returns when all their processes are dead, or after 3.5 s if some cannot be killed. No
// terminal can be created afterwards. A second Close does nothing.
func (s *Terminals) Close() { s.closing.Do(s.close) }

func (s *Terminals) close() {
	s.mu.Lock()
	s.closed = true
	var all []*Terminal
	for _, t := range s.leaders {
		all = append(all, t)
		s.release(t)
	}
	for t, timer := range s.evictions {
		if timer.Stop() {
			delete(s.evictions, t)
			delete(s.byID, t.id)
			t.free()
		}
	}
	s.mu.Unlock()

	// Endings in progress may have been given more time than is left now.
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var ends sync.WaitGroup
	for _, t := range all {
		// dispose logs the processes that could not be ended.
		ends.Go(panics.Guard(s.log, "ending the processes of a terminal", func() { _ = t.tree.end(ctx, closeGrace) }))
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

// grace returns the time between SIGTERM and SIGKILL; at most limit once everything is being closed.
func (s *Terminals) grace(limit time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return min(s.limits.Grace, limit)
	}
	return s.limits.Grace
}

// endTree ends all processes that a terminal's command started.
func (s *Terminals) endTree(t *Terminal) error {
	grace := s.grace(closeGrace)
	ctx, cancel := context.WithTimeoutCause(context.Background(), grace+endTimeout, fmt.Errorf("not dead %s after SIGKILL", endTimeout))
	defer cancel()
	if err := t.tree.end(ctx, grace); err != nil {
		s.log.Error("a terminal's processes could not be ended", "terminal", t.id, "error", err)
		return err
	}
	return nil
}

// dispose ends and cleans up a released terminal.
func (s *Terminals) dispose(t *Terminal) {
	e := t.end()
	<-e.done
	if t.runTimer != nil {
		t.runTimer.Stop()
	}
	if e.err == nil {
		<-t.exited
	}
	_ = t.master.Close()
	<-t.drained
	<-t.dead // waits long only for processes that cannot be killed
	t.tree.retire()
	t.leader.reap()
	if s.guard != nil {
		s.guard.Remove(t.leader.pid)
	}

	s.mu.Lock()
	delete(s.leaders, t.leader.pid)
	t.group.ending--
	s.prune(t.group)
	s.active--
	if s.closed {
		delete(s.byID, t.id)
		t.free()
	} else {
		s.evictions[t] = time.AfterFunc(s.retention, panics.Guard(s.log, "forgetting a released terminal", func() { s.evict(t) }))
	}
	s.mu.Unlock()
	s.endEscaped()
}

// evict removes a released terminal after its retention.
func (s *Terminals) evict(t *Terminal) {
	s.mu.Lock()
	delete(s.evictions, t)
	delete(s.byID, t.id)
	s.mu.Unlock()
	t.free()
}
