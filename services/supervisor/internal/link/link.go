// Package link joins a front and an agent: the data path. It reads both sides line by line, forwards what nobody here
// needs to change as the very bytes that came, sends routed requests to handlers, and puts questions to the gate.
//
// Two rules keep it from locking up. Reading a peer never waits for anything that needs that same peer to read: answers
// of our own are queued or written by workers. And a forwarded frame pushes back on its own sender alone.
//
// Each request of either side is answered exactly once: whoever takes it out of the table of calls in flight answers it.
package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/proc"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/display"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/route"
	"github.com/acphost/acphost/services/supervisor/internal/session"
	"google.golang.org/grpc"
)

// Times that the path keeps.
const (
	// readyTimeout is how long initialize is held for the handlers.
	readyTimeout = 10 * time.Second
	// callTimeout is how long a handler may take for a call that waits for nothing outside.
	callTimeout = 60 * time.Second
	// cancelGrace is how long after session/cancel the front may take to answer its open questions.
	cancelGrace = 5 * time.Second
	// flushTimeout is how long a front that is about to be left may take for what is still to be written.
	flushTimeout = 2 * time.Second
	// endTimeout is how long an agent that has closed its output may take to end, so that its end can be told.
	endTimeout = 3 * time.Second
	// settleTimeout is how long an exit is held back for the front to see the last output.
	settleTimeout = 5 * time.Second
)

// maxRefusals bounds the bytes of answers of our own that may wait for a peer that does not read. A peer that lets more
// gather than that is not coming back.
const maxRefusals = 64 << 20

// Front is whoever plays the agent's client: an editor on standard input and output, or a program.
type Front interface {
	// In gives the front's messages, a line each. Its end means that the front is gone.
	In() io.Reader
	// Out takes messages for the front, a line each. An error means that the front is gone.
	Out() io.Writer
}

// Agent is the other end.
type Agent interface {
	// Stdin takes messages for the agent, Stdout gives the agent's.
	Stdin() io.WriteCloser
	Stdout() io.Reader
	// Ended waits for the agent's end, for as long as ctx says, and tells it in words, and as the data of an error for
	// programs: one JSON value, or nil.
	Ended(ctx context.Context) (how string, data []byte)
}

// Limits bound what is taken. Zero stands for the default.
type Limits struct {
	MaxMessage   int   // bytes of one line; 100 MiB
	MaxQueued    int   // routed requests that wait or are worked on; 1,024
	MaxQueuedMem int64 // bytes of routed requests, and of answers on their way; 64 MiB
	MaxWorkers   int   // routed requests at handlers at once; 64
}

// Options are what a Link is made of.
type Options struct {
	Front Front
	Agent Agent
	// Ready waits until every handler answers and returns the routes; called at each initialize.
	Ready func(ctx context.Context) (*route.Table, error)
	// Conn returns the connection to a handler, or at once why there is none.
	Conn func(handler string) (grpc.ClientConnInterface, error)
	Book *session.Book
	Gate *gate.Gate
	// Place, if set, tells where paths of a session lead, and which are acphost's own; RealRoots where its roots do, "" for one that is not known.
	Place     func(ctx context.Context, sessionID string) PlaceFunc
	RealRoots func(roots []string) []string
	// Display shows terminals; nil: none is shown.
	Display func(sink display.Sink) *display.Display
	// Quirk tells whether a workaround is on for the agent; reported is the name that the agent gives itself.
	Quirk func(name, reported string) bool
	// AgentName is the agent's configured name.
	AgentName string
	// Observe: everything passes untouched, nothing is routed, asked or refused.
	Observe bool
	// Attended tells whether somebody is there to answer; nil: somebody is. Where nobody is, a question waits for as long
	// as Unattended says; 2 minutes if zero. It must not wait for anything.
	Attended   func() bool
	Unattended time.Duration
	// Headless: the front is a program that answers no questions by itself. Those of a turn that is cancelled are answered
	// at once. An elicitation is cancelled at once where nobody attends, unless the front has said at initialize that it
	// takes them: then somebody will come, and it waits.
	Headless bool
	// Questions, if set, is told of the questions that wait at the front.
	Questions Questions
	// CancelUnasked: a turn in which the agent does what the policy denies, without asking, is cancelled.
	CancelUnasked bool
	// RefuseStale: a write of a file that changed since it was read is refused.
	RefuseStale bool
	// InitializeTimeout is how long the agent may take to answer initialize; 60 s if zero.
	InitializeTimeout time.Duration
	Limits            Limits
	// Observer, if set, sees what passes.
	Observer frame.Observer
	// Pace, if set, is told of each routed call.
	Pace   *proc.Pace
	Logger *slog.Logger
}

// Reason says why a Link ended.
type Reason int

// The reasons.
const (
	// FrontGone: the front closed its side, or could not be written to.
	FrontGone Reason = iota
	// AgentGone: the agent closed its side, or could not be written to.
	AgentGone
	// NotReady: a handler did not start; the front was told.
	NotReady
	// NoInitialize: the agent did not answer initialize in time; the front was told.
	NoInitialize
	// Stopped: the context ended.
	Stopped
)

// Link is one joined pair. Run may be called once; the rest is safe for concurrent use.
type Link struct {
	opts    Options
	log     *slog.Logger
	toFront *jsonrpc.Writer
	toAgent *jsonrpc.Writer
	display *display.Display
	queue   *queue
	sizes   sizes

	agentCalls jsonrpc.InFlight[*agentCall]
	frontCalls jsonrpc.InFlight[*frontCall]
	own        jsonrpc.InFlight[*ownQuestion] // at the front

	openQuestions openQuestions // the agent's, at the front
	spent         spentIDs

	notices atomic.Bool // the front shows them
	elicits atomic.Bool // the front has said that it takes elicitations
	told    lastTold

	table    atomic.Pointer[route.Table]
	routesOn atomic.Bool
	reported atomic.Pointer[acp.Initialized]
	counters counters

	ended   chan struct{}
	endOnce sync.Once
	reason  Reason
	cause   error
	wg      sync.WaitGroup
	spawnMu sync.Mutex
	waited  bool // for wg: nothing may be added to it any more
}

// frontCall is a request of the front's that the agent has not answered.
type frontCall struct {
	id        []byte
	method    string
	sessionID string
	timer     atomic.Pointer[time.Timer]
}

func (c *frontCall) stopTimer() {
	if t := c.timer.Load(); t != nil {
		t.Stop()
	}
}

type counters struct {
	agentMessages, agentBytes, frontMessages, frontBytes atomic.Uint64
	routed, refused                                      atomic.Uint64
}

// New returns a Link that is not running yet.
func New(o Options) *Link {
	if o.InitializeTimeout == 0 {
		o.InitializeTimeout = time.Minute
	}
	if o.Unattended == 0 {
		o.Unattended = 2 * time.Minute
	}
	if o.Limits.MaxMessage == 0 {
		o.Limits.MaxMessage = defaultMaxMessage
	}
	if o.Pace == nil {
		o.Pace = &proc.Pace{}
	}
	l := &Link{
		opts:    o,
		log:     o.Logger,
		toFront: jsonrpc.NewWriter(o.Front.Out(), maxRefusals),
		toAgent: jsonrpc.NewWriter(o.Agent.Stdin(), maxRefusals),
		ended:   make(chan struct{}),
	}
	if o.Display != nil && !o.Observe {
		var sink display.Sink = l.toFront
		if o.Observer != nil {
			sink = observedSink{sink, l}
		}
		l.display = o.Display(sink)
	}
	return l
}

// Run joins the two until one of them is gone or ctx ends, answers whatever is still open, and says why it ended. It
// does not stop the agent. A read of the front, or a write to it, that is under way when the agent goes stays behind
// until its stream ends: nothing can interrupt it.
func (l *Link) Run(ctx context.Context) (Reason, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.queue = newQueue(ctx, l.opts.Limits, l.opts.Pace)
	agentDone := make(chan struct{})
	go func() {
		defer close(agentDone)
		l.end(AgentGone, l.pumpAgent(ctx))
	}()
	go func() { l.end(FrontGone, l.pumpFront(ctx)) }()
	select {
	case <-l.ended:
	case <-ctx.Done():
		l.end(Stopped, ctx.Err())
	}
	cancel()
	l.shutdown()
	return l.reason, l.cause
}

// end records the first reason and wakes Run.
func (l *Link) end(r Reason, err error) {
	l.endOnce.Do(func() {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		l.reason, l.cause = r, err
		close(l.ended)
	})
}

// shutdown answers what the agent left unanswered, ends what is under way and flushes what the front still takes.
func (l *Link) shutdown() {
	switch l.reason {
	case AgentGone:
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		how, data := l.opts.Agent.Ended(ctx)
		cancel()
		l.leaveFront("the agent cannot answer any more: "+how, data)
	case Stopped:
		l.leaveFront("the agent is being stopped", []byte(`{"acphost":{"kind":"stopped"}}`))
	}
	for _, c := range l.frontCalls.Drain() {
		c.stopTimer()
	}
	l.abandon()
	_ = l.opts.Agent.Stdin().Close() // ends a write that the agent does not take
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		if l.display != nil {
			l.display.Close()
		}
		l.queue.wait()
		l.abandon() // what reached the front in the last moment
		_ = l.toAgent.Close()
		_ = l.toFront.Close()
		l.spawnMu.Lock()
		l.waited = true
		l.spawnMu.Unlock()
		l.wg.Wait()
	}()
	select {
	case <-settled:
	case <-time.After(flushTimeout): // the front does not read; what it did not take is lost with it
	}
	l.opts.Book.CloseAll()
}

// leaveFront answers the front's open requests with an error.
func (l *Link) leaveFront(why string, data []byte) {
	for _, c := range l.frontCalls.Drain() {
		c.stopTimer()
		l.failFront(c.id, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: c.method + ": " + why, Data: data})
	}
}

// abandon ends what is open at the front: nobody waits for it any more.
func (l *Link) abandon() {
	for _, c := range l.agentCalls.All() {
		if c.current() != atFront || !l.take(c) {
			continue
		}
		l.shownEnds(c, true)
		if q := c.question; q != nil {
			_ = l.settleQuestion(q, gate.Outcome{Cancelled: true, By: gate.ByNobody, Asked: time.Since(q.asked)})
		}
		l.ends(c.waiting, End{Outcome: Withdrawn, By: gate.ByNobody})
	}
}

// spawn runs f in a goroutine that shutdown waits for. The front's pump may still be at work when it does: what it wants
// done after that is too late, and is left.
func (l *Link) spawn(f func()) {
	l.spawnMu.Lock()
	defer l.spawnMu.Unlock()
	if !l.waited {
		l.wg.Go(f)
	}
}

// Forget ends a session that the agent cannot close: what waits in it is answered, and its scope ends.
func (l *Link) Forget(sessionID string) {
	l.opts.Book.Closed(sessionID)
	l.sessionCancelled(sessionID)
}

// Reported returns what the agent said of itself at initialize; zero before that.
func (l *Link) Reported() acp.Initialized {
	if r := l.reported.Load(); r != nil {
		return *r
	}
	return acp.Initialized{}
}

// Counters returns what passed so far.
func (l *Link) Counters() *supervisorv1.LinkCounters {
	return &supervisorv1.LinkCounters{
		AgentMessages:   l.counters.agentMessages.Load(),
		AgentBytes:      l.counters.agentBytes.Load(),
		FrontMessages:   l.counters.frontMessages.Load(),
		FrontBytes:      l.counters.frontBytes.Load(),
		RoutedRequests:  l.counters.routed.Load(),
		PendingRequests: uint64(l.agentCalls.Len()),
		RefusedMessages: l.counters.refused.Load(),
	}
}

// refuseAgent answers a request of the agent's with an error, without waiting.
func (l *Link) refuseAgent(id []byte, code int, message string) {
	l.postAgent(jsonrpc.AppendError(nil, id, &jsonrpc.Error{Code: code, Message: message}))
}

func (l *Link) postAgent(line []byte) { l.postAgentBy("", line) }

// postAgentBy is postAgent for what somebody else than acphost itself has answered.
func (l *Link) postAgentBy(by string, line []byte) {
	l.see(frame.OursToAgent, by, line)
	if err := l.toAgent.Post(line); errors.Is(err, jsonrpc.ErrOverflow) {
		l.end(AgentGone, fmt.Errorf("the agent reads nothing: %d MiB of answers wait for it", maxRefusals>>20))
	}
}

// refuseFront answers a request of the front's with an error, without waiting.
func (l *Link) refuseFront(id []byte, code int, message string) {
	l.failFront(id, &jsonrpc.Error{Code: code, Message: message})
}

func (l *Link) failFront(id []byte, jerr *jsonrpc.Error) {
	line := jsonrpc.AppendError(nil, id, jerr)
	l.see(frame.OursToFront, "", line)
	if err := l.toFront.Post(line); errors.Is(err, jsonrpc.ErrOverflow) {
		l.end(FrontGone, fmt.Errorf("the front reads nothing: %d MiB of answers wait for it", maxRefusals>>20))
	}
}
