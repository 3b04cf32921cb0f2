package approval

import (
	"context"
	"sync/atomic"

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
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	w := &watcher{sessionID: req.GetSessionId(), changes: make(chan *supervisorv1.WatchApprovalsResponse, maxWaiting), cut: cut}
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
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case change, more := <-w.changes:
			if !more {
				return nil
			}
			w.bytes.Add(-sizeOf(change))
			if err := send(change); err != nil {
				return err
			}
		}
	}
}

// watcher is one call of WatchApprovals.
type watcher struct {
	sessionID string
	changes   chan *supervisorv1.WatchApprovalsResponse // closed with the Registry
	bytes     atomic.Int64                              // of changes
	cut       context.CancelCauseFunc
}

// add queues a change, or cuts the watcher off. It never waits: the Registry's mu is held, so that nobody else adds.
func (r *Registry) add(w *watcher, change *supervisorv1.WatchApprovalsResponse) {
	size := sizeOf(change)
	if n := len(w.changes); n == maxWaiting || n > 0 && w.bytes.Load()+size > maxWaitingBytes {
		delete(r.watchers, w)
		w.cut(errSlow)
		return
	}
	w.bytes.Add(size)
	w.changes <- change
}

func sizeOf(change *supervisorv1.WatchApprovalsResponse) int64 {
	return int64(len(change.GetAsked().GetRaw()))
}
