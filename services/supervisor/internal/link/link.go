// Package link joins a client and an agent: it is the data path. It reads both sides line by line, forwards a line that
// acphost does not need to change as the bytes that came, sends routed requests to handlers, and puts questions to the gate.
//
// Two rules keep it from locking up. A goroutine that reads a peer never waits for anything that needs the same peer to read:
// answers of acphost are queued, or written by workers. A forwarded frame slows down its own sender alone.
//
// The client gets what an agent sends about a session in the agent's order, also while a permission request of the session is
// decided (order). Each request of either side is answered exactly once: the goroutine that takes the request out of the table
// of open requests answers it. Package question says who ends a question.
//
// The package must not know how agents and handlers are started, nor who watches.
package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/limits"
	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/proc"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/launch"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/dialect"
	"github.com/acphost/acphost/services/supervisor/internal/display"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/question"
	"github.com/acphost/acphost/services/supervisor/internal/route"
	"github.com/acphost/acphost/services/supervisor/internal/session"
	"github.com/acphost/acphost/services/supervisor/internal/span"
)

// Times that the path keeps.
const (
	// readyTimeout is how long initialize is held for the handlers: a little longer than a handler may take to start, so that the
	// error of the start is returned.
	readyTimeout = launch.ChildTimeout + 5*time.Second
	// callTimeout is how long a handler may take for a call that waits for nothing outside.
	callTimeout = 60 * time.Second
	// cancelGrace is how long after session/cancel the client may take to answer its open questions.
	cancelGrace = 5 * time.Second
	// flushTimeout is how long a client that is about to be left may take for what is still to be written.
	flushTimeout = 2 * time.Second
	// lastWords is how long an agent may take for what a client that is gone has said last.
	lastWords = 200 * time.Millisecond
	// endTimeout is how long an agent that has closed its output may take to end, so that its end can be told.
	endTimeout = 3 * time.Second
	// shownTimeout is how long an exit is held back for the client to see the last output.
	shownTimeout = 5 * time.Second
)

// maxRefusals bounds the bytes of answers of our own that may wait for a peer that does not read. A peer that lets more
// gather than that is not coming back.
const maxRefusals = limits.Waiting

// Client is the agent's client: an editor on standard input and output, or a program.
type Client struct {
	// In gives the client's messages, a line each. Its end means that the client is gone.
	In io.Reader
	// Out takes messages for the client, a line each. An error means that the client is gone.
	Out io.Writer
	// Foreign, if set, reports whether a prompt of In with this id is from another caller, who prompts beside the client:
	// then it returns what takes whether the prompt begins a turn. One that does not, since another turn is under way,
	// has no other answer.
	Foreign func(id []byte) (begins func(bool))
	// Rejected, if set, is called with the id of a request of In that acphost itself rejects and the agent never sees, before
	// the error is written to Out. It must return soon.
	Rejected func(id []byte)
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
	Client Client
	Agent  Agent
	// Ready waits until every handler answers and returns the routes; called at each initialize.
	Ready func(ctx context.Context) (*route.Table, error)
	// Conn returns the connection to a handler, or at once why there is none.
	Conn func(handler string) (grpc.ClientConnInterface, error)
	// Sidecar reports whether a handler is one, which may see other files than are seen from here; nil: none is.
	Sidecar func(handler string) bool
	// Sessions is what is known of the agent's sessions.
	Sessions *session.Table
	Gate     *gate.Gate
	// Place, if set, tells where paths of a session lead, and which are acphost's own, by what has been seen for the
	// question (nil: nothing); RealRoots where its roots do, "" for one that is not known.
	Place     func(ctx context.Context, sessionID string, seen *paths.Seen) PlaceFunc
	RealRoots func(roots []string) []string
	// CheckOpening, if set, returns an error if a session cannot be opened with the roots that the client names, of which there
	// is one at least; again is the session that is loaded or resumed. The client gets the error, and the agent does not see the
	// request. It may take a few seconds, in which nothing more of the client is read.
	CheckOpening func(ctx context.Context, again string, roots []string) error
	// Local: agents and their commands see the files that we see, with the same rights.
	Local bool
	// Display shows terminals; nil: none is shown.
	Display func(sink display.Sink) *display.Display
	// Quirk reports whether a workaround is on for the agent; reported is the name that the agent gives itself.
	Quirk func(name, reported string) bool
	// Names are what this supervisor calls its own tool calls and questions; nil: the link has names of its own.
	Names *Names
	// AgentName is the agent's configured name.
	AgentName string
	// Modes are the modes in which the agent asks before it acts. If the agent opens a session in another mode, the link puts the
	// session in the first of them that the agent offers, before the client gets the answer, and refuses the session if that fails.
	// Nil: they are not known, and sessions stay in the mode in which the agent opens them.
	Modes []string
	// Tested are the versions of the agent that acphost was tested with; if the agent reports another version, that is logged. Nil:
	// they are not known.
	Tested []string
	// TerminalTools are the agent's tools that run commands by terminal/create alone. They are known of the preset that the agent
	// was started by, and never by the agent's own name. Nil: none are known.
	TerminalTools *TerminalTools
	// Dialect is what the user says of how the agent describes its tools; nil: nothing.
	Dialect *dialect.Dialect
	// AgentEnviron is the environment that the agent was started with; nil: our own.
	AgentEnviron []string
	// Observe: everything passes untouched, nothing is routed, asked or refused.
	Observe bool
	// Attended reports whether somebody can answer questions; nil: somebody always can. It must not wait for anything. If
	// nobody can, a question waits for Unattended; 2 minutes if zero.
	Attended   func() bool
	Unattended time.Duration
	// Headless: the client is a program that answers no questions by itself. If a turn is cancelled, its questions are
	// answered at once. If nobody attends, an elicitation is cancelled at once, unless the client said at initialize that it
	// takes elicitations: then somebody will come, and the elicitation waits.
	Program bool
	// cancelGrace is how long after session/cancel an editor may take to answer its open questions; 0: the constant.
	cancelGrace time.Duration
	// Questions, if set, is told of the questions that wait at the client.
	Questions question.Observer
	// CancelUnasked: a turn in which the agent does what the policy denies, without asking, is cancelled.
	CancelUnasked bool
	// RefuseStale: a write of a file that changed since it was read is refused.
	RefuseStale bool
	// ReportSoon is how long a permission request waits for a report that its agent sends just after it, where the agent is
	// known to do so; 300 ms if zero.
	ReportSoon time.Duration
	// InitializeTimeout is how long the agent may take to answer initialize; 60 s if zero.
	InitializeTimeout time.Duration
	Limits            Limits
	// Observer, if set, sees what passes.
	Observer frame.Observer
	// Called, if set, is told of each call that a handler answered, or should have: its handler, its route's method, how long it
	// took, and whether the agent got an error. It is called concurrently and must not wait.
	Called func(handler, method string, took time.Duration, failed bool)
	// Tracer, if set, makes spans of turns, of the agent's requests, and of what is done about them. TraceActions: the span of a
	// decision says what the action is, in words that name paths and commands.
	Tracer       span.Tracer
	TraceActions bool
	// Hurry ends when the end of the link is not to wait any more for a client or an agent that takes nothing; nil: it never does.
	Hurry context.Context
	// Containment decides about what the agent's processes do by themselves; nil: nobody does.
	Containment Containment
	// Pace, if set, is told of each routed call.
	Pace   *proc.Pace
	Logger *slog.Logger
}

// Reason says why a Link ended.
type Reason int

// The reasons.
const (
	// ClientGone: the client closed its side, or could not be written to.
	ClientGone Reason = iota
	// AgentGone: the agent closed its side, or could not be written to.
	AgentGone
	// NotReady: a handler did not start; the client was told.
	NotReady
	// NoInitialize: the agent did not answer initialize in time; the client was told.
	NoInitialize
	// Stopped: the context ended.
	Stopped
	// Broken: the link met a defect of acphost's and cannot go on; peers that wait for answers were told.
	Broken
)

// Link is one joined pair. Run may be called once; the rest is safe for concurrent use.
type Link struct {
	opts     Options
	log      *slog.Logger
	toClient *jsonrpc.Writer
	toAgent  *jsonrpc.Writer
	display  *display.Display
	queue    *queue
	order    *order
	sizes    sizes

	agentCalls  jsonrpc.InFlight[*agentCall]
	clientCalls jsonrpc.InFlight[*clientCall]
	openings    openings
	own         jsonrpc.InFlight[*question.Question] // acphost's, at the client
	questions   *question.Set

	notices atomic.Bool // the client shows them
	elicits atomic.Bool // the client has said that it takes elicitations
	said    lastNotices
	// speaks is the name by which the client has opened a session, if that is not today's; nil: it is.
	speaks atomic.Pointer[string]
	// untested says that acphost was not tested with the agent's version; nil: it was, or the user has been told.
	untested atomic.Pointer[string]

	table    atomic.Pointer[route.Table]
	routesOn atomic.Bool
	reported atomic.Pointer[acp.Initialized]
	dropped  atomic.Pointer[string] // see Dropped
	counters counters
	turns    turns

	saidImitated atomic.Bool
	unanswered   atomic.Pointer[unanswered] // set once the link is over

	ended   chan struct{}
	endOnce sync.Once
	reason  Reason
	cause   error
	wg      sync.WaitGroup
	spawnMu sync.Mutex
	waited  bool // for wg: nothing may be added to it any more
}

// clientCall is a request of the client's that the agent has not answered.
type clientCall struct {
	id        []byte
	method    string
	sessionID string
	opens     bool // it is one of Link.openings
	timer     atomic.Pointer[time.Timer]
	change    *modeChange // set for a request of acphost's own, which the client does not know
}

func (c *clientCall) stopTimer() {
	if t := c.timer.Load(); t != nil {
		t.Stop()
	}
}

type counters struct {
	agentMessages, agentBytes, clientMessages, clientBytes atomic.Uint64
	routed, refused, imitated                              atomic.Uint64
}

// New returns a Link that is not running yet.
func New(o Options) *Link {
	o.InitializeTimeout = cmp.Or(o.InitializeTimeout, time.Minute)
	o.ReportSoon = cmp.Or(o.ReportSoon, 300*time.Millisecond)
	o.Unattended = cmp.Or(o.Unattended, 2*time.Minute)
	o.Limits.MaxMessage = cmp.Or(o.Limits.MaxMessage, defaultMaxMessage)
	o.Names = cmp.Or(o.Names, NewNames())
	o.Pace = cmp.Or(o.Pace, &proc.Pace{})
	if o.Hurry == nil {
		o.Hurry = context.Background()
	}
	l := &Link{
		opts:     o,
		log:      o.Logger,
		toClient: jsonrpc.NewWriter(o.Client.Out, maxRefusals),
		toAgent:  jsonrpc.NewWriter(o.Agent.Stdin(), maxRefusals),
		ended:    make(chan struct{}),
	}
	l.questions = question.NewSet(question.Options{
		Observer: o.Questions, Waiting: o.Gate.Waiting, Post: l.writeClient,
		Attended: o.Attended, Unattended: o.Unattended, Program: o.Program, Grace: cmp.Or(o.cancelGrace, cancelGrace), Logger: o.Logger,
	})
	if o.Display != nil && !o.Observe {
		var sink display.Sink = l.toClient
		if o.Observer != nil {
			sink = observedSink{sink, l}
		}
		l.display = o.Display(sink)
	}
	return l
}

// Run forwards messages until the client or the agent is gone, or ctx ends. Then it answers every open request, and says why
// it ended. It does not stop the agent. Nothing can interrupt a read of the client, or a write to it, that is under way when
// the agent goes: it stays behind until its stream ends.
func (l *Link) Run(ctx context.Context) (Reason, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.queue = newQueue(ctx, l.opts.Limits, l.opts.Pace)
	l.queue.log, l.queue.panicked = l.log, l.workFailed
	l.order = newOrder(l.queue.limits.MaxQueuedMem)
	agentDone := make(chan struct{})
	go func() {
		defer close(agentDone)
		defer panics.Recover(l.log, "reading the agent's messages", l.broken)
		l.end(AgentGone, l.pumpAgent())
	}()
	go func() {
		defer panics.Recover(l.log, "reading the client's messages", l.broken)
		l.end(ClientGone, l.pumpClient(ctx))
	}()
	select {
	case <-l.ended:
	case <-ctx.Done():
		l.end(Stopped, ctx.Err())
	}
	cancel()
	l.shutdown()
	return l.reason, l.cause
}

// broken ends the link after a panic in the goroutine that reads a peer: what that goroutine knows may be half changed.
func (l *Link) broken(err error) { l.end(Broken, err) }

// workFailed answers a request of the agent after a panic of the work on it.
func (l *Link) workFailed(c *agentCall, err error) {
	if c == nil {
		return
	}
	l.answerError(c, internalError(c.method, err))
	if q := c.asked(); q != nil {
		q.Finish(question.Ending{Cause: question.LinkOver})
	}
	l.shownEnds(c, true)
}

// internalError is what a peer is told whose request was not answered because of a defect.
func internalError(method string, err error) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: method + ": acphost: " + err.Error()}
}

// end records the first reason and wakes Run.
func (l *Link) end(r Reason, err error) { l.endAfter(r, err, func() {}) }

// endAfter records the first reason, has the client's last request answered, and wakes Run. Whoever reads the answer and then
// stops the link finds the reason for the answer, not that the link was stopped.
func (l *Link) endAfter(r Reason, err error, answer func()) {
	first := false
	l.endOnce.Do(func() {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		l.reason, l.cause, first = r, err, true
	})
	if first {
		defer close(l.ended)
	}
	answer()
}

// shutdown answers what the agent left unanswered, ends what is under way and flushes what the client still takes.
func (l *Link) shutdown() {
	var why string
	var data []byte
	switch l.reason {
	case AgentGone:
		ctx, cancel := context.WithTimeout(l.opts.Hurry, endTimeout)
		why, data = l.opts.Agent.Ended(ctx)
		cancel()
		why = "the agent cannot answer any more: " + why
	case Stopped:
		why, data = "the agent is being stopped", []byte(`{"acphost":{"kind":"stopped"}}`)
	case Broken:
		why = "the agent is being stopped: acphost: " + l.cause.Error()
	}
	l.unanswered.Store(&unanswered{why, data})
	calls := l.clientCalls.Drain()
	if l.reason == AgentGone && slices.ContainsFunc(calls, func(c *clientCall) bool { return c.method == acp.MethodInitialize }) {
		l.unanswered.Store(&unanswered{why + l.Dropped(), data}) // it may be no ACP agent at all
	}
	for _, c := range calls {
		l.tooLate(c)
	}
	l.abandon()
	if l.reason == ClientGone { // its last words may be that it cancels
		said := make(chan struct{})
		go func() {
			defer close(said)
			defer panics.Recover(l.log, "writing the client's last messages")
			_ = l.toAgent.Close()
		}()
		select {
		case <-said:
		case <-time.After(lastWords):
		}
	}
	go func() { // ends a write that the agent does not take, unless it holds the pipe
		defer panics.Recover(l.log, "closing the agent's input")
		_ = l.opts.Agent.Stdin().Close()
	}()
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		defer panics.Recover(l.log, "ending what the link does")
		if l.display != nil {
			l.display.Close()
		}
		l.queue.wait()
		l.abandon() // what reached the client in the last moment
		_ = l.toAgent.Close()
		_ = l.toClient.Close()
		l.spawnMu.Lock()
		l.waited = true
		l.spawnMu.Unlock()
		l.wg.Wait()
	}()
	select {
	case <-settled:
	case <-l.opts.Hurry.Done():
	case <-time.After(flushTimeout): // the client does not read; what it did not take is lost with it
	}
	l.opts.Sessions.CloseAll()
	l.endTurns(func(*turnSpan) bool { return true }, "", failedOver)
	for _, c := range l.agentCalls.All() { // nobody answers them
		c.span.End(failedOver)
	}
}

// unanswered says why the agent answers nothing any more; why is empty if nobody is there to be told.
type unanswered struct {
	why  string
	data []byte
}

// tooLate answers a request of the client's that was taken out of the table when the link was over.
func (l *Link) tooLate(c *clientCall) {
	c.stopTimer()
	if c.change != nil { // the client waits for the session that is opened
		c = c.change.opening
	}
	if u := l.unanswered.Load(); u.why != "" {
		l.failClient(c.id, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: c.method + ": " + u.why, Data: u.data})
	}
}

// abandon ends what is open at the client: nobody waits for it any more.
func (l *Link) abandon() {
	for _, c := range l.agentCalls.All() {
		if q := c.asked(); q != nil && (q.Finish(question.Ending{Cause: question.LinkOver}) || !q.Own) {
			continue
		}
		if c.state.Load() == atClient && l.claim(c) {
			l.shownEnds(c, true)
			c.span.End(failedOver)
		}
	}
}

// spawn runs f in a goroutine that shutdown waits for. Once shutdown waits, spawn does nothing: the goroutine that reads the
// client may still call it.
func (l *Link) spawn(f func()) {
	l.spawnMu.Lock()
	defer l.spawnMu.Unlock()
	if !l.waited {
		l.wg.Go(panics.Guard(l.log, "working for a session", f))
	}
}

// Forget ends a session that the agent cannot close: what waits in it is answered, and its scope ends.
func (l *Link) Forget(sessionID string) {
	l.opts.Sessions.Closed(sessionID)
	l.sessionCancelled(sessionID)
	l.endSession(sessionID)
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
		FrontMessages:   l.counters.clientMessages.Load(),
		FrontBytes:      l.counters.clientBytes.Load(),
		RoutedRequests:  l.counters.routed.Load(),
		PendingRequests: uint64(l.agentCalls.Len()),
		RefusedMessages: l.counters.refused.Load(),

		ImitatedMessages: l.counters.imitated.Load(),
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
	l.writeAgent(line)
}

// writeAgent sends the agent a line that was seen, without waiting.
func (l *Link) writeAgent(line []byte) {
	if err := l.toAgent.Post(line); errors.Is(err, jsonrpc.ErrOverflow) {
		l.end(AgentGone, fmt.Errorf("the agent reads nothing: %d MiB of answers wait for it", maxRefusals>>20))
	}
}

// refuseClient answers a request of the client's with an error, without waiting.
func (l *Link) refuseClient(id []byte, code int, message string) {
	l.failClient(id, &jsonrpc.Error{Code: code, Message: message})
}

func (l *Link) failClient(id []byte, jerr *jsonrpc.Error) {
	line := jsonrpc.AppendError(nil, id, jerr)
	l.see(frame.OursToClient, "", line)
	if err := l.toClient.Post(line); errors.Is(err, jsonrpc.ErrOverflow) {
		l.end(ClientGone, fmt.Errorf("the client reads nothing: %d MiB of answers wait for it", maxRefusals>>20))
	}
}
