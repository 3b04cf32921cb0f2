package supervise

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/panics"
)

const (
	// healthEvery is the time between two health checks.
	healthEvery = 5 * time.Second
	// healthTicks is how many times healthEvery a check may remain without an answer. A handler on a busy machine
	// answers late, and its end loses terminals, so this is long. A handler that hangs is ended 20 to 25 s after its
	// last answer.
	healthTicks = 4
	// healthFailures is the number of checks in a row that fail with an answer (an error, or "not serving") before the
	// handler is ended.
	healthFailures = 2
)

// watch returns why the instance ended, hangs or failed its health checks, or nil when ctx ends. Each tick begins a
// check, unless one has no answer yet: a late answer is still an answer.
//
// How long a check waits is counted in received ticks, not by the clock. A ticker drops the ticks that this goroutine
// is too late for, so that a machine on which the supervisor itself is delayed or stopped gives the handler more time
// by itself.
func (h *Handler) watch(ctx context.Context, inst Instance, ticks <-chan time.Time) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error, 1)
	waiting, waited, failures := false, 0, 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-inst.Done():
			return ending(inst)
		case err := <-answers:
			switch waiting = false; {
			case err == nil:
				failures = 0
			case ctx.Err() != nil:
				return nil
			case isOver(inst):
				return ending(inst)
			default:
				if failures++; failures == healthFailures {
					return fmt.Errorf("it was ended, since it failed %d health checks: %w", failures, err)
				}
			}
		case <-ticks:
			switch {
			case len(answers) > 0: // read the answer first
			case !waiting:
				waiting, waited = true, 0
				wg.Go(func() {
					answers <- panics.Catch(h.log, "asking the handler for its health", func() error { return inst.Ping(ctx) })
				})
			default:
				if waited++; waited == healthTicks {
					return fmt.Errorf("it was ended, since it did not answer a health check within %v", healthTicks*healthEvery)
				}
			}
		}
	}
}
