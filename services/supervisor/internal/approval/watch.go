package approval

import (
	"context"
	"sync"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
)

// Bounds on the changes that wait for one watcher. A watcher that leaves more unread is cut off.
const (
	maxWaiting      = 1024
	maxWaitingBytes = 64 << 20 // of the questions' params; a single one may be larger
)

// errSlow cuts a watcher off.
var errSlow = fault.New(fault.Exhausted, "this watcher did not keep up with the questions, and was cut off: call again")

// WatchApprovals sends the questions that wait, of one session or of all, then what becomes of them and of new ones, until
// ctx ends, send fails, or the Registry is closed: the first two are returned as they are, the last as nil. A watcher
// whose send does not keep up gets a *fault.Error of class Exhausted. What is sent must not be changed.
func (r *Registry) WatchApprovals(ctx context.Context, req *supervisorv1.WatchApprovalsRequest, send func(*supervisorv1.WatchApprovalsResponse) error) error {
	w := &watcher{sessionID: req.GetSessionId(), wake: make(chan struct{}, 1)}
	if !req.GetOnlyLook() {
		r.attending.Add(1)
		defer r.attending.Add(-1)
	}
	attended := r.Attended()
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	waiting := r.list(w.sessionID, attended)
	r.watchers[w] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.watchers, w)
		r.mu.Unlock()
	}()
	for i, a := range waiting {
		if err := send(&supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_Asked{Asked: a}}); err != nil {
			return err
		}
		waiting[i] = nil
	}
	if err := send(&supervisorv1.WatchApprovalsResponse{Change: &supervisorv1.WatchApprovalsResponse_CaughtUp{CaughtUp: &supervisorv1.CaughtUp{}}}); err != nil {
		return err
	}
	for {
		changes, over, err := w.next(ctx)
		if err != nil {
			return err
		}
		for _, change := range changes {
			if err := send(change); err != nil {
				return err
			}
		}
		if over {
			return nil
		}
	}
}

// watcher is one call of WatchApprovals.
type watcher struct {
	sessionID string
	wake      chan struct{} // has something when the rest changed

	mu    sync.Mutex
	queue []*supervisorv1.WatchApprovalsResponse
	bytes int
	over  bool
	err   error
}

// add queues a change, or cuts the watcher off. It never waits.
func (w *watcher) add(change *supervisorv1.WatchApprovalsResponse) {
	size := len(change.GetAsked().GetRaw())
	w.mu.Lock()
	switch {
	case w.over:
	case len(w.queue) >= maxWaiting || len(w.queue) > 0 && w.bytes+size > maxWaitingBytes:
		w.over, w.err, w.queue = true, errSlow, nil
	default:
		w.queue = append(w.queue, change)
		w.bytes += size
	}
	w.mu.Unlock()
	w.knock()
}

// end ends the watcher after what is queued for it.
func (w *watcher) end(err error) {
	w.mu.Lock()
	if !w.over {
		w.over, w.err = true, err
	}
	w.mu.Unlock()
	w.knock()
}

func (w *watcher) knock() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// next waits for changes and takes them all; over: there will be no more.
func (w *watcher) next(ctx context.Context) (changes []*supervisorv1.WatchApprovalsResponse, over bool, err error) {
	for {
		w.mu.Lock()
		changes, over, err = w.queue, w.over, w.err
		w.queue, w.bytes = nil, 0
		w.mu.Unlock()
		if len(changes) > 0 || over {
			return changes, over, err
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return nil, true, ctx.Err()
		}
	}
}
