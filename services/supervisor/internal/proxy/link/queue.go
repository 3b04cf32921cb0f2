package link

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/acphost/acphost/internal/limits"
	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/proc"
)

// Defaults of Limits.
const (
	defaultMaxMessage = limits.Message
	defaultQueued     = 1024
	defaultQueuedMem  = limits.Waiting
	defaultWorkers    = 64
)

// job is work on an agent's request, usually a call to a handler.
type job struct {
	run    func(ctx context.Context)
	call   *agentCall // the request that is answered if run panics; nil: none
	weight int64      // bytes that it keeps while it waits
	waits  bool       // it waits for something outside, so it takes no worker
}

// queue holds the routed requests of one agent. The number of requests, and of workers, is limited. Requests are processed in order of
// arrival. Workers are started on demand and end when the queue is empty.
type queue struct {
	ctx      context.Context
	log      *slog.Logger // nil: slog's default logger
	pace     *proc.Pace
	panicked func(call *agentCall, err error) // called after a job's panic; nil: the panic is only logged
	limits   Limits
	wg       sync.WaitGroup
	budget   budget
	mu       sync.Mutex
	waiting  []job
	held     int   // jobs that wait or are in progress
	bytes    int64 // their weight
	workers  int
	closed   bool // no jobs are accepted
}

func newQueue(ctx context.Context, l Limits, pace *proc.Pace) *queue {
	l.MaxQueued = cmp.Or(l.MaxQueued, defaultQueued)
	l.MaxQueuedMem = cmp.Or(l.MaxQueuedMem, max(defaultQueuedMem, int64(l.MaxMessage)))
	l.MaxWorkers = cmp.Or(l.MaxWorkers, defaultWorkers)
	q := &queue{ctx: ctx, limits: l, pace: pace}
	q.budget.init(l.MaxQueuedMem)
	return q
}

// add adds a job; false: there is no room for it, or the link has ended. It never blocks.
func (q *queue) add(j job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.held >= q.limits.MaxQueued || q.bytes+j.weight > q.limits.MaxQueuedMem {
		return false
	}
	q.admit(j)
	return true
}

// again adds further work on a call that is in progress. There is always room for it.
func (q *queue) again(j job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.admit(j)
}

// admit starts a job, or queues it for a worker; mu is held.
func (q *queue) admit(j job) {
	q.held++
	q.bytes += j.weight
	if j.waits {
		q.wg.Go(func() { q.work(j) })
		return
	}
	q.waiting = append(q.waiting, j)
	if q.workers < q.limits.MaxWorkers {
		q.workers++
		q.wg.Go(q.worker)
	}
}

func (q *queue) worker() {
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			q.workers--
			q.mu.Unlock()
			return
		}
		j := q.waiting[0]
		q.waiting[0] = job{}
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		q.work(j)
	}
}

func (q *queue) work(j job) {
	if !j.waits {
		q.pace.Enter()
		defer q.pace.Leave()
	}
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.held--
		q.bytes -= j.weight
	}()
	defer panics.Recover(q.log, "working on a request of the agent", func(err error) {
		if q.panicked != nil {
			q.panicked(j.call, err)
		}
	})
	j.run(q.ctx)
}

// wait waits for the jobs. Queued jobs are processed too, with a context that has ended. No further jobs are accepted, because the agent
// may be read for as long as it writes.
func (q *queue) wait() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wg.Wait()
}

// budget limits the bytes of answers in transit to an agent that may not be reading. Room is reserved before a handler is called, by the
// sizes of its recent answers, and corrected when the answer arrives.
type budget struct {
	mu    sync.Mutex
	free  int64
	total int64
	turns []waiter
}

type waiter struct {
	n     int64
	ready chan struct{}
}

func (b *budget) init(total int64) { b.free, b.total = total, total }

// reserve waits for n bytes of room, in order of arrival; n is at most the total. It returns the bytes to give back, or ctx's error if ctx
// ends first.
func (b *budget) reserve(ctx context.Context, n int64) (int64, error) {
	b.mu.Lock()
	n = min(n, b.total)
	if len(b.turns) == 0 && b.free >= n {
		b.free -= n
		b.mu.Unlock()
		return n, nil
	}
	w := waiter{n: n, ready: make(chan struct{})}
	b.turns = append(b.turns, w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return n, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	waiting := len(b.turns)
	b.turns = slices.DeleteFunc(b.turns, func(turn waiter) bool { return turn.ready == w.ready })
	if len(b.turns) == waiting {
		b.free += n // it was granted at the same moment
	}
	b.wake()
	return 0, ctx.Err()
}

// give returns n bytes of room. A negative n takes room that an answer needs beyond its reservation.
func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	b.wake()
}

func (b *budget) wake() {
	for len(b.turns) > 0 && b.free >= b.turns[0].n {
		b.free -= b.turns[0].n
		close(b.turns[0].ready)
		b.turns = b.turns[1:]
	}
}
