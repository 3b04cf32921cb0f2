package containment

import (
	"path/filepath"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

// lease returns the other file changes that an answer also covers; nil: none. It returns a lease only if the session of
// the changes is certain.
func (d *Decider) lease(e *event, o Try) *decisions.Lease {
	if e.Counts == nil || e.Operation != sandbox.Write || e.kept || len(e.sessions) != 1 || !filepath.IsAbs(e.Path) {
		return nil
	}
	lease := d.opts.Gate.Lease(o.Decision, e.Program, func() gate.Counter {
		if c := e.Counts.New(); c != nil {
			return c
		}
		return nil
	})
	if lease == nil {
		return nil
	}
	out := &decisions.Lease{Reuse: lease.Reuse, Count: lease.Counter.(*decisions.Count)}
	for _, key := range lease.Keys {
		id, ok := decisions.IDOf(key)
		if !ok {
			return nil
		}
		out.Keys = append(out.Keys, id)
	}
	return out
}

// readLease returns the other reads that an answer also covers; nil: none. The session of the reads has to be certain.
func (d *Decider) readLease(e *event, o Try) *decisions.ReadLease {
	if e.Operation != sandbox.Read || len(e.sessions) > 1 {
		return nil
	}
	lease := d.opts.Gate.ReadLease(o.Decision)
	if lease == nil {
		return nil
	}
	out := &decisions.ReadLease{Asked: lease.Asked}
	for _, key := range lease.Keys {
		id, ok := decisions.IDOf(key)
		if !ok {
			return nil
		}
		out.Keys = append(out.Keys, id)
	}
	return out
}
