package chat

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

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
	// What was opened before the agent is started, and that it was.
	watches, questions, begun bool
	opened                    bool  // a session was open at least once
	failure                   error // why there is none

	edit   editor
	past   *history
	menu   menu
	queue  []string
	turn   *turn
	turns  int // begun here
	live   live
	asked  []*question
	picker *picker
	search *search
	own    *ownCommand // that runs
	// confirming is what the person is to confirm before it is done.
	confirming *confirmation
	attention  attention
	loan       *loan     // of the terminal, to an editor; nil: there is none to lend
	prefixed   bool      // ctrl+x was pressed, and the next key decides
	keyTime    time.Time // of the last key
	quitBy     time.Time // until then ctrl+c quits
	interrupts bool      // ctrl+c did

	joined joined // where Options.Attach is set

	loose    bool // something was said outside of a turn, and may go on
	shownAt  time.Time
	greeting string    // for when a history was told
	partial  string    // a line of what is being said, that has not ended
	out      []string  // rows that wait to be printed
	held     []tea.Cmd // until fewer wait
	printing bool
	framed   chan struct{}    // closed when the first frame is on the terminal; nil: it is not waited for
	expanded bool             // more is shown of a command's output
	cut      *render.Renderer // that has left out lines of the command that ended last; nil: none
	leaving  bool
	away     bool // the terminal is another's for now
	ticking  bool
	frame    int // of the spinner

	tail        []string  // of the agent's standard error, as it was printed last
	crashed     time.Time // when the agent's state changed last
	setting     int       // changes of mode, model and options that are not answered
	watchCursor string
	retries     int
}

// message is what a command brings the model. It tells the model, and returns what is to be done next.
type message interface{ tell(m *model) tea.Cmd }

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
	r := Result{Session: m.session.GetSessionId(), Used: m.turns > 0, Over: m.phase == broken, Interrupted: m.interrupts}
	can := m.agent.GetInfo().GetCapabilities()
	r.Reopens = m.o.Attach == nil && r.Session != "" && (can.GetLoadSession() || can.GetResumeSession())
	if !m.opened {
		return r, m.failure
	}
	return r, nil
}

// Init implements tea.Model. The agent is started when all is watched that it may say and ask from the beginning.
func (m *model) Init() tea.Cmd {
	if a := m.o.Attach; a != nil {
		m.joined.waits = a.History == HistoryNone
	}
	return tea.Batch(m.sup.watch("", ""), m.sup.questions(), m.sup.notes(m.o.Notes), m.sup.firstDrawn(m.framed), m.settle())
}

// begin starts the agent, once.
func (m *model) begin() tea.Cmd {
	if m.begun || !m.watches || !m.questions {
		return nil
	}
	m.begun = true
	if m.o.Attach != nil {
		return m.sup.attach(m.o.Attach)
	}
	return m.sup.start(m.o.Agent)
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
	if call := m.notice(); call != nil {
		cmds = append(cmds, call)
	}
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
	return m.phase == starting || m.phase == opening || m.turn != nil || m.loose || len(m.live.tools) > 0 || len(m.asked) > 0 || m.own != nil || m.now().Before(m.quitBy)
}

func (m *model) update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.resize(msg.Width, msg.Height)
	case tea.FocusMsg:
		m.focus(true)
	case tea.BlurMsg:
		m.focus(false)
	case awayMsg:
		m.away = bool(msg)
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
	case message:
		return msg.tell(m)
	default:
		if fromTerminal(msg) {
			m.terminalSpoke()
		}
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
	m.draw.SetWidth(width)
}
