package decisions

import (
	"time"

	"github.com/acphost/acphost/internal/pathglob"
	"github.com/acphost/acphost/internal/sandbox"
	sandboxv1 "github.com/acphost/acphost/proto/acphost/sandbox/v1"
)

// reads is a ReadLease in the sandbox. It is immutable.
type reads struct {
	asked pathglob.Set
	keys  map[FileID]bool
	until time.Time
}

// newReads returns the lease of an answer; nil: it is not valid.
func newReads(l *sandboxv1.ReadLease, now time.Time) *reads {
	asked, ok := pathglob.NewSet(l.GetAsked())
	if !ok || len(l.GetAsked()) > maxAsked || len(l.GetKeys())%2 != 0 {
		return nil
	}
	r := &reads{asked: asked, keys: map[FileID]bool{}, until: now.Add(leaseTime)}
	for i := 0; i < len(l.GetKeys()); i += 2 {
		r.keys[FileID{Device: l.GetKeys()[i], Inode: l.GetKeys()[i+1]}] = true
	}
	return r
}

// allow reports whether the lease allows a read. nil allows none.
func (r *reads) allow(e sandbox.Event, now time.Time) bool {
	if r == nil || !now.Before(r.until) || r.asked.MayMatch(e.Path) {
		return false
	}
	if len(r.keys) == 0 {
		return true
	}
	id, ok := heldID(e)
	return ok && !r.keys[id]
}
