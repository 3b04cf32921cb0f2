package chat

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/render"
)

// phase is how far a chat is.
type phase int

const (
	starting phase = iota // the agent
	opening               // a session
	ready
	broken // there is no session, and will be none unless the person does something
)

// model is all that is known, and what is shown of it. Bubble Tea calls it from one goroutine.
type model struct {
	o    Options
	sup  *supervisor
	now  func() time.Time
	sty  style
	draw *render.Renderer

	width, height int

	phase   phase
	agent   *supervisorv1.Agent
	session *supervisorv1.Session // folded from what was told of it
	early   []*supervisorv1.Event // of sessions, while it is not known which one will be ours
	loading string                // the id of the session that is being loaded
	opened  bool                  // a session was open at least once
	failure error                 // why there is none

	edit    editor
	past    *history
	menu    menu
	queue   []string
	turn    *turn
	turns   int // begun here
	live    live
	asked   []*question
	picker  *picker
	keyTime time.Time // of the last key
	quitBy  time.Time // until then ctrl+c quits

	loose    bool // something was said outside of a turn, and may go on
	shownAt  time.Time
	greeting string    // for when a history was told
	partial  string    // a line of what is being said, that has not ended
	out      []string  // rows that wait to be printed
	held     []tea.Cmd // until fewer wait
	printing bool
	leaving  bool
	ticking  bool
	frame    int // of the spinner

	tail        []string  // of the agent's standard error, as it was printed last
	crashed     time.Time // when the agent's state changed last
	setting     int       // changes of mode, model and options that are not answered
	watchCursor string
	retries     int
}

// turn is a prompt that is being worked on.
type turn struct {
	number    int
	since     time.Time
	cancelled bool
	cursor    string // of its last event
	ended     bool
}

// Messages that the model sends itself.
type (
	printedMsg struct{}
	tickMsg    struct{}
	noticeMsg  struct {
		text string
		bad  bool
	}
	retryMsg   struct{ what tea.Cmd }
	historyMsg struct{ err error }
	noteMsg    string
)

// Bounds of what waits.
const (
	maxEarly = 1024 // events
	maxOut   = 2000 // rows
)

const (
	tick = 100 * time.Millisecond
	// looseTime is how long nothing is said until what was said outside of a turn counts as said.
	looseTime = 300 * time.Millisecond
)

func newModel(o Options, sup *supervisor) *model {
	m := &model{o: o, sup: sup, now: time.Now, sty: style{color: o.Color}, width: 80, height: 24}
	m.draw = m.renderer()
	var err error
	if m.past, err = openHistory(o.StateDir); err != nil {
		m.warn("what was typed before cannot be read, and is not kept: " + err.Error())
	}
	return m
}

// result is how it ended.
func (m *model) result() (Result, error) {
	r := Result{AgentID: m.agent.GetId(), Session: m.session.GetSessionId(), Used: m.turns > 0}
	can := m.agent.GetInfo().GetCapabilities()
	r.Reopens = r.Session != "" && (can.GetLoadSession() || can.GetResumeSession())
	if !m.opened {
		return r, m.failure
	}
	return r, nil
}

// Init implements tea.Model. What can be asked while the agent starts is watched first.
func (m *model) Init() tea.Cmd {
	return tea.Batch(m.sup.watch("", ""), m.sup.questions(), m.sup.start(m.o.Agent), m.sup.notes(m.o.Notes), m.settle())
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.update(msg)
	return m, tea.Batch(cmd, m.settle())
}

// settle is what is to be done after each message.
func (m *model) settle() tea.Cmd {
	var cmds []tea.Cmd
	m.face()
	if !m.ticking && m.moves() {
		m.ticking = true
		cmds = append(cmds, m.sup.after(tick, tickMsg{}))
	}
	if !m.printing && len(m.out) > 0 {
		m.printing = true
		n := min(len(m.out), m.printRows())
		text := strings.Join(m.out[:n], "\n")
		m.out = m.out[n:]
		if text == "" {
			text = " " // Bubble Tea prints no line for nothing
		}
		// One after another: Bubble Tea runs commands in any order.
		cmds = append(cmds, tea.Sequence(tea.Println(text), func() tea.Msg { return printedMsg{} }))
	}
	if m.leaving && !m.printing {
		cmds = append(cmds, tea.Quit)
	}
	return tea.Batch(cmds...)
}

// moves reports whether something that is shown changes by itself.
func (m *model) moves() bool {
	return m.phase == starting || m.phase == opening || m.turn != nil || m.loose || len(m.live.tools) > 0 || len(m.asked) > 0 || m.now().Before(m.quitBy)
}

func (m *model) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.resize(msg.Width, msg.Height)
	case tickMsg:
		m.ticking = false
		m.frame++
		m.paused()
	case printedMsg:
		m.printing = false
		if len(m.out) < maxOut/2 {
			held := m.held
			m.held = nil
			return tea.Batch(held...)
		}
	case noticeMsg:
		m.notice(msg)
	case noteMsg:
		// What failed here is in the log too.
		if m.failure == nil || !strings.Contains(strings.ReplaceAll(string(msg), `\"`, `"`), m.failure.Error()) {
			m.warn(string(msg))
		}
		return m.sup.notes(m.o.Notes)
	case historyMsg:
		if m.past.file != "" {
			m.past.file = ""
			m.warn("what is typed is not kept: " + msg.err.Error())
		}
	case retryMsg:
		return msg.what
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		return m.paste(msg.Content)
	case startedMsg:
		return m.started(msg)
	case openedMsg:
		return m.sessionOpened(msg)
	case turnMsg:
		return m.turnWent(msg)
	case watchMsg:
		return m.watchWent(msg)
	case questionsMsg:
		return m.questionsWent(msg)
	case answeredMsg:
		return m.answerWent(msg)
	case storedMsg:
		m.storedCame(msg)
	case sessionMsg:
		m.sessionCame(msg)
	case filesMsg:
		m.filesCame(msg)
	case outputMsg:
		return m.outputCame(msg)
	}
	return nil
}

// resize takes a new size. A terminal that does not say its size has the usual one.
func (m *model) resize(width, height int) {
	if width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	again := width != m.width
	m.width, m.height = width, height
	if !again {
		return
	}
	m.flush()
	m.draw = m.renderer()
	// What the new one needs to know of what goes on; it was printed before.
	for _, t := range m.live.tools {
		if slices.ContainsFunc(t.report.GetContent(), func(c *supervisorv1.ToolCallContent) bool { return c.GetTerminalId() != "" }) {
			m.draw.Event(&supervisorv1.Event{Event: &supervisorv1.Event_ToolCall{ToolCall: t.report}})
		}
	}
	for _, q := range m.asked {
		m.draw.Event(asEvent(q.approval))
	}
}

func (m *model) renderer() *render.Renderer { return render.New(m.drawing()) }

// drawing is how things look that scroll by. Questions are shown where they are answered, and what is used in the status.
func (m *model) drawing() render.Options {
	return render.Options{
		Width: m.width, Color: m.o.Color, Markdown: true, Cwd: m.o.Cwd,
		History: true, Prompts: true, Asking: true, NoUsage: true,
	}
}

// viewRows is how many rows the lower part has at most, and printRows how many are printed at once: Bubble Tea spills
// what is below into the scrollback when both do not fit on the screen together.
func (m *model) viewRows() int  { return max(m.height*2/3, 3) }
func (m *model) printRows() int { return max(m.height-m.viewRows(), 1) }

// print adds lines to what scrolls by. They have been made harmless.
func (m *model) print(text string) {
	text = strings.TrimSuffix(text, "\n")
	if text == "" {
		return
	}
	text = untabbed(text)
	m.out = append(m.out, strings.Split(ansi.Hardwrap(text, m.width, true), "\n")...)
}

// drawn takes what the renderer gave out. Its last line may go on: it is under way until it ends.
func (m *model) drawn(text string) {
	text = m.partial + text
	end := strings.LastIndexByte(text, '\n') + 1
	m.partial = text[end:]
	if end == 1 {
		m.out = append(m.out, "")
		return
	}
	m.print(text[:end])
}

// paused shows what was held back of what is being said, where no more has come for a moment.
func (m *model) paused() {
	switch {
	case m.now().Sub(m.shownAt) < looseTime:
	case m.turn != nil:
		m.drawn(m.draw.Pause()) // it may go on
	case m.loose:
		m.tighten()
	}
}

// tighten ends what was said outside of a turn: nothing tells that it is over but that no more comes.
func (m *model) tighten() {
	m.loose = false
	m.flush()
	if m.greeting != "" {
		m.note(m.greeting)
		m.greeting = ""
	}
}

// flush ends what is being said.
func (m *model) flush() {
	m.drawn(m.draw.Flush())
	m.print(m.partial)
	m.partial = ""
}

// note, warn and fail say something of acphost's own.
func (m *model) note(text string) { m.print(m.sty.dim(m.own(text))) }
func (m *model) warn(text string) { m.print(m.sty.yellow(m.own(text))) }
func (m *model) fail(text string) { m.print(m.sty.red(m.own(text))) }

func (m *model) own(text string) string {
	return ansi.Wrap(harmless(strings.TrimRight(text, "\n")), m.width, "")
}

func (m *model) notice(n noticeMsg) {
	if n.bad {
		m.fail(n.text)
		return
	}
	m.note(n.text)
}

func (m *model) started(msg startedMsg) tea.Cmd {
	if msg.err != nil {
		m.broke(msg.err)
		return nil
	}
	m.agent = msg.agent
	return m.openSession(m.first(), m.o.Cwd)
}

// first is the session to begin with: the one that was asked for, until there was one.
func (m *model) first() string {
	if m.opened {
		return ""
	}
	return m.o.Session
}

// openSession opens a session in place of the one that is open; a stored one if id is not empty.
func (m *model) openSession(id, cwd string) tea.Cmd {
	m.phase, m.loading = opening, id
	return m.sup.openSession(m.agent, id, cwd, m.session.GetSessionId())
}

func (m *model) sessionOpened(msg openedMsg) tea.Cmd {
	m.loading = ""
	if msg.err != nil {
		m.early = nil
		if m.session != nil && status.Code(msg.err) != codes.Aborted {
			m.phase = ready // the one before is still there
			m.fail("the session did not open: " + problem(msg.err))
			m.sayLogin(agentError(msg.err))
			return nil
		}
		m.broke(msg.err)
		return nil
	}
	m.flush()
	m.phase, m.session, m.failure = ready, msg.session, nil
	m.live = live{plan: msg.session.GetPlan()}
	early := m.early
	m.early = nil
	var cmds []tea.Cmd
	for _, ev := range early {
		if ev.GetSessionId() == m.session.GetSessionId() {
			cmds = append(cmds, m.show(ev))
		}
	}
	m.greet(msg.how)
	if !m.opened {
		m.opened = true
		if m.o.Mode != "" {
			cmds = append(cmds, m.chooseMode(m.o.Mode))
		}
		if m.o.Model != "" {
			cmds = append(cmds, m.chooseModel(m.o.Model))
		}
	}
	return tea.Batch(append(cmds, m.sendQueued())...)
}

func (m *model) greet(how string) {
	verb := map[string]string{"new": "new session", "load": "session loaded", "resume": "session resumed"}[how]
	text := verb + " with " + m.agentTitle()
	if v := m.agent.GetInfo().GetVersion(); v != "" {
		text += " " + line(v)
	}
	if t := m.session.GetTitle(); t != "" {
		text += ": " + line(t)
	}
	m.greeting = text
	m.loose, m.shownAt = true, m.now()
	if how != "load" { // of a history there may be more
		m.tighten()
	}
}

// broke says why there is no session.
func (m *model) broke(err error) {
	m.phase, m.failure = broken, &AgentError{Kind: agentError(err).GetKind(), text: line(problem(err))}
	m.session, m.turn = nil, nil
	m.fail(problem(err))
	m.printTail(agentError(err).GetStderrTail())
	if !m.sayLogin(agentError(err)) {
		m.note("/new tries again, /quit leaves")
	}
}

// sayLogin says what to run where the agent wants somebody to log in.
func (m *model) sayLogin(err *supervisorv1.AgentError) bool {
	if err.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED {
		return false
	}
	if name := m.o.Agent.GetPreset(); name != "" {
		m.warn("the agent wants you to log in: run \"acphost agents login " + name + "\" in another terminal, then /new here")
	} else {
		m.warn("the agent wants you to log in: do that with its own command in another terminal, then /new here. It offers:")
	}
	for _, a := range m.agent.GetInfo().GetAuthMethods() {
		text := "  " + line(a.GetName())
		if d := line(a.GetDescription()); d != "" {
			text += ": " + d
		}
		m.note(text)
	}
	return true
}

// printTail prints the last lines of an agent's standard error.
func (m *model) printTail(tail []string) {
	if len(tail) == 0 || slices.Equal(tail, m.tail) {
		return // or it was printed already
	}
	m.tail = tail
	m.note("the last it said on standard error:")
	for _, l := range tail {
		m.note("  " + line(l))
	}
}

// turnWent takes a piece of the turn that was begun here.
func (m *model) turnWent(msg turnMsg) tea.Cmd {
	if m.turn == nil || m.turn.number != msg.turn {
		if msg.err == nil && msg.feed != nil {
			return m.sup.turn(msg.turn, msg.feed) // of a session that was left: read to its end, so that it can end
		}
		return nil
	}
	var cmds []tea.Cmd
	for _, ev := range msg.events {
		if c := ev.GetCursor(); c != "" {
			m.turn.cursor = c
		}
		if ev.GetTurnEnded() != nil {
			m.turn.ended = true
		}
		cmds = append(cmds, m.show(ev))
	}
	if msg.err == nil {
		return tea.Batch(append(cmds, m.unhurried(m.sup.turn(msg.turn, msg.feed)))...)
	}
	return tea.Batch(append(cmds, m.turnOver(msg))...)
}

// turnOver takes the end of a turn's stream, which need not be the turn's.
func (m *model) turnOver(msg turnMsg) tea.Cmd {
	if m.turn.ended {
		return m.endTurn()
	}
	if status.Code(msg.err) == codes.ResourceExhausted && m.turn.cursor != "" {
		m.warn("the screen was slower than the agent; going on from the record")
		return m.sup.follow(msg.turn, m.session.GetAgentId(), m.session.GetSessionId(), m.turn.cursor)
	}
	if !errors.Is(msg.err, io.EOF) {
		m.flush()
		m.fail(problem(msg.err))
		m.sayLogin(agentError(msg.err))
		m.printTail(agentError(msg.err).GetStderrTail())
	}
	return m.endTurn()
}

// endTurn is the end of a turn, however it came.
func (m *model) endTurn() tea.Cmd {
	m.flush()
	for _, t := range m.live.tools { // they will not be told to have ended
		m.drawTool(t)
	}
	m.printPlan()
	m.live.endTurn()
	m.turn = nil
	return m.sendQueued()
}

func (m *model) sendQueued() tea.Cmd {
	if m.turn != nil || m.phase != ready || len(m.queue) == 0 {
		return nil
	}
	text := m.queue[0]
	m.queue = m.queue[1:]
	return m.send(text)
}

// send begins a turn with a text.
func (m *model) send(text string) tea.Cmd {
	m.tighten()
	m.turns++
	m.turn = &turn{number: m.turns, since: m.now()}
	m.live.endTurn()
	m.printPrompt(text)
	caps := m.agent.GetInfo().GetCapabilities()
	cwd := m.o.Cwd
	return m.sup.prompt(m.turns, m.session.GetAgentId(), m.session.GetSessionId(), func() ([]*supervisorv1.ContentBlock, error) {
		return blocks(text, cwd, caps)
	})
}

// printPrompt prints what the person said.
func (m *model) printPrompt(text string) {
	block := &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: text}}}
	m.drawn(m.draw.Event(&supervisorv1.Event{
		Time:  timestamppb.New(m.now()),
		Event: &supervisorv1.Event_TurnStarted{TurnStarted: &supervisorv1.TurnStarted{Prompt: []*supervisorv1.ContentBlock{block}}},
	}))
	m.flush()
}

// watchWent takes what goes on beside our own turns.
func (m *model) watchWent(msg watchMsg) tea.Cmd {
	var cmds []tea.Cmd
	for _, ev := range msg.events {
		if c := ev.GetCursor(); c != "" {
			m.watchCursor = c
		}
		cmds = append(cmds, m.watchSaw(ev))
	}
	if msg.err == nil {
		m.retries = 0
		return tea.Batch(append(cmds, m.sup.watched(msg.feed))...)
	}
	if m.leaving || status.Code(msg.err) == codes.Unimplemented {
		return nil
	}
	cursor := m.watchCursor
	if c := status.Code(msg.err); c == codes.OutOfRange || c == codes.InvalidArgument {
		cursor = ""
	}
	at := ""
	if m.turn != nil {
		at = m.session.GetSessionId()
	}
	return m.again(m.sup.watch(cursor, at), msg.err)
}

func (m *model) watchSaw(ev *supervisorv1.Event) tea.Cmd {
	if a := ev.GetAgent(); a != nil {
		m.agentChanged(a)
		return nil
	}
	if h := ev.GetHandler(); h != nil {
		m.handlerChanged(h)
		return nil
	}
	switch {
	case ev.GetSessionId() == "":
	case ev.GetSessionId() == m.loading:
		return m.show(ev) // a history is shown as it comes
	case m.phase == opening || m.phase == starting:
		if len(m.early) < maxEarly {
			m.early = append(m.early, ev)
		}
	case ev.GetSessionId() == m.session.GetSessionId():
		return m.show(ev)
	}
	return nil
}

// unhurried is a command that waits where more is to be printed than the terminal has taken.
func (m *model) unhurried(cmd tea.Cmd) tea.Cmd {
	if len(m.out) < maxOut {
		return cmd
	}
	m.held = append(m.held, cmd)
	return nil
}

// again tries a stream again after a moment.
func (m *model) again(cmd tea.Cmd, err error) tea.Cmd {
	m.retries++
	if m.retries == 20 {
		m.fail("the supervisor is gone: " + problem(err))
	}
	if m.retries >= 20 {
		m.phase = broken
		return nil
	}
	return m.sup.after(200*time.Millisecond, retryMsg{what: cmd})
}

func (m *model) agentChanged(a *supervisorv1.Agent) {
	if m.agent == nil || a.GetId() != m.agent.GetId() {
		return
	}
	before := m.agent.GetState()
	m.agent = a
	if before == a.GetState() {
		return
	}
	m.crashed = m.now()
	switch a.GetState() {
	case supervisorv1.AgentState_AGENT_STATE_BACKOFF, supervisorv1.AgentState_AGENT_STATE_FAILED, supervisorv1.AgentState_AGENT_STATE_STOPPED:
		m.flush()
		m.fail(cmp.Or(line(a.GetError().GetMessage()), "the agent ended"))
		tail := a.GetError().GetStderrTail()
		if len(tail) == 0 {
			tail = a.GetStderrTail()
		}
		m.printTail(tail)
		if a.GetState() == supervisorv1.AgentState_AGENT_STATE_BACKOFF {
			m.note("it is started again…")
			return
		}
		m.phase = broken
		m.note("/new starts it again, /quit leaves")
	case supervisorv1.AgentState_AGENT_STATE_RUNNING:
		can := a.GetInfo().GetCapabilities()
		switch {
		case m.phase != broken:
			m.note("the agent runs again")
		case can.GetLoadSession() || can.GetResumeSession():
			m.note("the agent runs again; if the session does not go on, /new begins a new one")
		default:
			m.note("the agent runs again, and cannot go on with the session; /new begins a new one")
		}
	}
}

func (m *model) handlerChanged(h *supervisorv1.HandlerChanged) {
	switch h.GetState() {
	case "backoff", "failed":
		m.warn("the handler " + line(h.GetName()) + " is not there: " + cmp.Or(line(h.GetError()), h.GetState()))
	case "ready":
		if h.GetRestarts() > 0 {
			m.note("the handler " + line(h.GetName()) + " is there again")
		}
	}
}

func (m *model) agentTitle() string {
	i := m.agent.GetInfo()
	return cmp.Or(line(i.GetTitle()), line(m.agent.GetName()), line(i.GetName()), line(m.o.Agent.GetPreset()), "the agent")
}

// agentName is short.
func (m *model) agentName() string {
	command := ""
	if c := m.o.Agent.GetCommand(); len(c) > 0 {
		command = c[0][strings.LastIndexByte(c[0], '/')+1:]
	}
	return cmp.Or(line(m.agent.GetName()), line(m.o.Agent.GetName()), line(m.o.Agent.GetPreset()), line(command), "agent")
}
