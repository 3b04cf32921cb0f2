// Package link connects a client and an agent: it is the data path. It reads both sides line by line, forwards lines that acphost does not
// change as they came, sends routed requests to handlers, and asks the gate about actions.
//
// Two rules prevent deadlocks. A goroutine that reads a peer never waits for anything that needs the same peer to read: answers of acphost
// are queued, or written by workers. A forwarded frame blocks only its own sender.
//
// The client gets an agent's messages about a session in the agent's order, even while a permission request of the session is decided
// (order). Each request of either side is answered exactly once: the goroutine that removes the request from the table of open requests
// answers it. Package question defines which goroutine ends a question.
//
// The package must not know how agents and handlers are started, nor who observes.
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
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/acp/session"
	"github.com/acphost/acphost/services/supervisor/internal/events/span"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/policy/dialect"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/display"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

// Timeouts of the data path.
const (
	// readyTimeout is how long initialize is held for the handlers. It is a little longer than a handler may take to start, so that the
	// error of the start is returned.
	readyTimeout = launch.ChildTimeout + 5*time.Second
	// callTimeout limits a handler's call that waits for nothing outside.
	callTimeout = 60 * time.Second
	// cancelGrace is how long the client may take to answer its open questions after session/cancel.
	cancelGrace = 5 * time.Second
	// flushTimeout limits the remaining writes to a client at the end of the link.
	flushTimeout = 2 * time.Second
	// lastWords limits the writes to an agent of the last messages of a client that is gone.
	lastWords = 200 * time.Millisecond
	// endTimeout is how long an agent may take to exit after it has closed its output, so that its exit can be reported.
	endTimeout = 3 * time.Second
	// shownTimeout is how long the report of an exit is held until the client has seen the last output.
	shownTimeout = 5 * time.Second
)

// maxRefusals limits the bytes of acphost's answers that wait for a peer that does not read. A peer above the limit is considered gone.
const maxRefusals = limits.Waiting

// Client is the agent's client: an editor on standard input and output, or a program.
type Client struct {
	// In provides the client's messages, one per line. Its end means that the client is gone.
	In io.Reader
	// Out accepts messages for the client, one per line. An error means that the client is gone.
	Out io.Writer
	// Foreign, if set, reports whether a prompt of In with this id is from another caller beside the client. For such a prompt it returns a
	// function that is called with whether the prompt begins a turn. A prompt that begins none, because another turn is in progress, gets
	// no other answer.
	Foreign func(id []byte) (begins func(bool))
	// Rejected, if set, is called with the id of a request of In that acphost itself rejects and does not forward, before the error is
	// written to Out. It must return soon.
	Rejected func(id []byte)
}

// Agent is the agent's end of the link.
type Agent interface {
	// Stdin accepts messages for the agent, Stdout provides the agent's messages.
	Stdin() io.WriteCloser
	Stdout() io.Reader
	// Ended waits for the agent's exit, until ctx ends. It describes the exit in words, and as the data of an error for programs: one JSON
	// value, or nil.
	Ended(ctx context.Context) (how string, data []byte)
}

// Limits are the limits of a link. Zero means the default.
type Limits struct {
	MaxMessage   int   // bytes of one line; 100 MiB
	MaxQueued    int   // routed requests that wait or are in progress; 1,024
	MaxQueuedMem int64 // bytes of routed requests, and of answers in transit; 64 MiB
	MaxWorkers   int   // routed requests at handlers at once; 64
}

// Options configure a Link.
type Options struct {
	Client Client
	Agent  Agent
	// Ready waits until every handler is ready, and returns the routes. It is called at each initialize.
	Ready func(ctx context.Context) (*route.Table, error)
	// Conn returns the connection to a handler, or at once the error why there is none.
	Conn func(handler string) (grpc.ClientConnInterface, error)
	// Sidecar reports whether a handler is a sidecar, which may see other files than the supervisor; nil: none is.
	Sidecar func(handler string) bool
	// Sessions is the state of the agent's sessions.
	Sessions *session.Table
	Gate     *gate.Gate
	// Place, if set, resolves the paths of a session, and marks acphost's own. seen caches the look-ups of paths for one request, and may
	// be nil. RealRoots resolves a session's roots; "": not known.
	Place     func(ctx context.Context, sessionID string, seen *paths.Cache) PlaceFunc
	RealRoots func(roots []string) []string
	// CheckOpening, if set, returns an error if a session cannot be opened with the roots that the client names; there is at least one.
	// again is the session that is loaded or resumed. The client gets the error, and the request is not forwarded. CheckOpening may take a
	// few seconds, during which the client is not read.
	CheckOpening func(ctx context.Context, again string, roots []string) error
	// Local: agents and their commands see the same files as the supervisor, with the same rights.
	Local bool
	// Display shows terminals; nil: none is shown.
	Display func(sink display.Sink) *display.Display
	// Quirk reports whether a workaround is enabled for the agent. reported is the agent's own name at initialize.
	Quirk func(name, reported string) bool
	// Names are the ids of the supervisor's own tool calls and questions; nil: the link creates its own Names.
	Names *Names
	// AgentName is the agent's configured name.
	AgentName string
	// Modes are the modes in which the agent asks before it acts. If the agent opens a session in another mode, the link sets the first of
	// them that the agent offers, before the client gets the answer. If that fails, the link refuses the session. Nil: they are not known,
	// and sessions keep the mode in which the agent opens them.
	Modes []string
	// Tested are the versions of the agent that acphost was tested with. Any other version is logged. Nil: they are not known.
	Tested []string
	// TerminalTools are the agent's tools that run commands only by terminal/create. They depend on the preset that the agent was started
	// by, and never on the agent's own name. Nil: none are known.
	TerminalTools *TerminalTools
	// Dialect is the user's description of how the agent describes its tools; nil: none.
	Dialect *dialect.Dialect
	// AgentEnviron is the environment that the agent was started with; nil: the supervisor's environment.
	AgentEnviron []string
	// Observe: everything is forwarded unchanged, and nothing is routed, asked or refused.
	Observe bool
	// Attended reports whether somebody can answer questions; nil: always. It must not block. If nobody can, a question waits for
	// Unattended; 2 minutes if zero.
	Attended   func() bool
	Unattended time.Duration
	// Program: the client is a program that answers no questions by itself. If a turn is cancelled, its questions are answered at once. If
	// nobody attends, an elicitation is cancelled at once, unless the client declared support for elicitations at initialize. Then the
	// elicitation waits until somebody attends.
	Program bool
	// cancelGrace is how long an editor may take to answer its open questions after session/cancel; 0: the constant.
	cancelGrace time.Duration
	// Questions, if set, observes the questions that wait at the client.
	Questions question.Observer
	// CancelUnasked: a turn is cancelled if the agent does something in it that the policy denies, without asking.
	CancelUnasked bool
	// RefuseStale: a write is refused if the file has changed since it was read.
	RefuseStale bool
	// ReportSoon is how long a permission request waits for a report that its agent sends just after it, if the agent is known to do so;
	// 300 ms if zero.
	ReportSoon time.Duration
	// InitializeTimeout is how long the agent may take to answer initialize; 60 s if zero.
	InitializeTimeout time.Duration
	Limits            Limits
	// Observer, if set, receives all frames.
	Observer frame.Observer
	// Called, if set, is called after each handler call, successful or not, with the handler, the route's method, the duration, and whether
	// the agent got an error. It is called concurrently and must not block.
	Called func(handler, method string, took time.Duration, failed bool)
	// Tracer, if set, creates spans of turns, of the agent's requests, and of their processing. TraceActions: the span of a decision
	// describes the action, in words that name paths and commands.
	Tracer       span.Tracer
	TraceActions bool
	// Hurry ends when the end of the link must no longer wait for a client or an agent that does not read; nil: it never does.
	Hurry context.Context
	// Containment decides about process actions of the agent; nil: they are not decided.
	Containment Containment
	// Pace, if set, is notified of each routed call.
	Pace   *proc.Pace
	Logger *slog.Logger
}

// Reason is the reason why a Link ended.
type Reason int

// The reasons.
const (
	// ClientGone: the client closed its side, or a write to it failed.
	ClientGone Reason = iota
	// AgentGone: the agent closed its side, or a write to it failed.
	AgentGone
	// NotReady: a handler did not start; the client got an error.
	NotReady
	// NoInitialize: the agent did not answer initialize in time; the client got an error.
	NoInitialize
	// Stopped: the context ended.
	Stopped
	// Broken: a defect of acphost ended the link; peers that waited for answers got errors.
	Broken
)

// Link connects one client and one agent. Run may be called once; the other methods are safe for concurrent use.
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
	own         jsonrpc.InFlight[*question.Question] // acphost's questions at the client
	questions   *question.Set

	notices atomic.Bool // the client shows notices
	elicits atomic.Bool // the client supports elicitations
	said    lastNotices
	// speaks is the older method name by which the client has opened a session; nil: it uses the current name.
	speaks atomic.Pointer[string]
	// untested is the warning that acphost was not tested with the agent's version; nil: it was, or the user was notified.
	untested atomic.Pointer[string]

	table    atomic.Pointer[route.Table]
	routesOn atomic.Bool
	reported atomic.Pointer[acp.Initialized]
	dropped  atomic.Pointer[string] // see Dropped
	counters counters
	turns    turns

	loggedImitated atomic.Bool
	unanswered     atomic.Pointer[unanswered] // set once the link has ended

	ended   chan struct{}
	endOnce sync.Once
	reason  Reason
	cause   error
	wg      sync.WaitGroup
	spawnMu sync.Mutex
	waited  bool // shutdown waits for wg, and nothing may be added to it
}

// clientCall is a client's request that the agent has not answered.
type clientCall struct {
	id        []byte
	method    string
	sessionID string
	opens     bool // it is in Link.openings
	timer     atomic.Pointer[time.Timer]
	change    *modeChange // set for a request of acphost itself, which the client does not know
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

// Run forwards messages until the client or the agent is gone, or ctx ends. Then it answers every open request, and returns the reason. It
// does not stop the agent. A read of the client, or a write to it, that is in progress when the agent ends cannot be interrupted: its
// goroutine remains until the stream ends.
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

// broken ends the link after a panic in a goroutine that reads a peer, because the state of that goroutine may be inconsistent.
func (l *Link) broken(err error) { l.end(Broken, err) }

// workFailed answers an agent's request after a panic during its processing.
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

// internalError returns the error for a request that was not answered because of a defect.
func internalError(method string, err error) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: method + ": acphost: " + err.Error()}
}

// end records the first reason and wakes Run.
func (l *Link) end(r Reason, err error) { l.endAfter(r, err, func() {}) }

// endAfter records the first reason, calls answer to answer the client's last request, and wakes Run. A caller that reads the answer and
// then stops the link gets the reason for the answer, not that the link was stopped.
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

// shutdown answers the requests that the agent did not answer, ends the work in progress, and flushes the client's writer.
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
		l.unanswered.Store(&unanswered{why + l.Dropped() + l.RefusedAtStart(), data}) // it may not be an ACP agent at all
	}
	for _, c := range calls {
		l.answerEnded(c)
	}
	l.abandon()
	if l.reason == ClientGone { // its last message may be a cancellation
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
	go func() { // ends a write that the agent does not read, unless the agent holds the pipe
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
		l.abandon() // requests that were sent to the client meanwhile
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
	case <-time.After(flushTimeout): // the client does not read; the remaining messages are lost
	}
	l.opts.Sessions.CloseAll()
	l.endTurns(func(*turnSpan) bool { return true }, "", failedOver)
	for _, c := range l.agentCalls.All() { // they remain unanswered
		c.span.End(failedOver)
	}
}

// unanswered is the reason why the agent answers no more requests; why is empty if there is no peer to get it.
type unanswered struct {
	why  string
	data []byte
}

// answerEnded answers a client's request that was removed from the table after the link had ended.
func (l *Link) answerEnded(c *clientCall) {
	c.stopTimer()
	if c.change != nil { // the client waits for the session that is being opened
		c = c.change.opening
	}
	if u := l.unanswered.Load(); u.why != "" {
		l.failClient(c.id, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: c.method + ": " + u.why, Data: u.data})
	}
}

// abandon ends the requests that are open at the client, because nobody waits for them any more.
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

// spawn runs f in a goroutine that shutdown waits for. Once shutdown waits, spawn does nothing, because the goroutine that reads the client
// may still call it.
func (l *Link) spawn(f func()) {
	l.spawnMu.Lock()
	defer l.spawnMu.Unlock()
	if !l.waited {
		l.wg.Go(panics.Guard(l.log, "working for a session", f))
	}
}

// Forget ends a session that the agent cannot close: its waiting requests are answered, and its scope ends.
func (l *Link) Forget(sessionID string) {
	l.opts.Sessions.Closed(sessionID)
	l.sessionCancelled(sessionID)
	l.endSession(sessionID)
}

// Reported returns the agent's answer to initialize; zero before that.
func (l *Link) Reported() acp.Initialized {
	if r := l.reported.Load(); r != nil {
		return *r
	}
	return acp.Initialized{}
}

// Counters returns the counts so far.
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

// refuseAgent answers an agent's request with an error, without blocking.
func (l *Link) refuseAgent(id []byte, code int, message string) {
	l.postAgent(jsonrpc.AppendError(nil, id, &jsonrpc.Error{Code: code, Message: message}))
}

func (l *Link) postAgent(line []byte) { l.postAgentBy("", line) }

// postAgentBy is postAgent for an answer of another component than acphost itself.
func (l *Link) postAgentBy(by string, line []byte) {
	l.see(frame.OursToAgent, by, line)
	l.writeAgent(line)
}

// writeAgent sends the agent a line that observers have seen, without blocking.
func (l *Link) writeAgent(line []byte) {
	if err := l.toAgent.Post(line); errors.Is(err, jsonrpc.ErrOverflow) {
		l.end(AgentGone, fmt.Errorf("the agent reads nothing: %d MiB of answers wait for it", maxRefusals>>20))
	}
}

// refuseClient answers a client's request with an error, without blocking.
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
