package approval

import (
	"context"
	"sync/atomic"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Bounds on the changes that wait for one watcher. A watcher that exceeds them is disconnected.
const (
	maxWaiting      = 1024
	maxWaitingBytes = 64 << 20 // of the questions' params; a single question may be larger
)

// errSlow is the error of a watcher that is disconnected because it is too slow.
var errSlow = fault.New(fault.Exhausted, "this watcher did not keep up with the questions, and was cut off: call again")

// WatchApprovals sends the waiting questions of one session or of all, then their changes and new questions, until ctx ends, send fails,
// or the Registry is closed. It returns the error of ctx or send unchanged, and nil after Close. If send is too slow, it returns a
// *fault.Error of class Exhausted. Sent messages must not be changed.
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
	changes   chan *supervisorv1.WatchApprovalsResponse // closed by Registry.Close
	bytes     atomic.Int64                              // size of changes
	cut       context.CancelCauseFunc
}

// add queues a change, or disconnects the watcher if its queue is full. It does not block: the Registry's mu is held, so that there is
// only one sender.
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
