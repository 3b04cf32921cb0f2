package chat

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// phase is the phase of a chat.
type phase int

const (
	starting phase = iota // the agent is starting
	opening               // a session is opening
	ready
	broken // there is no session, and the user has to act
)

// model is the state of the chat and of the screen. Bubble Tea calls it from one goroutine.
type model struct {
	o    Options
	sup  *supervisor
	now  func() time.Time
	sty  style
	draw *render.Renderer

	width, height int

	phase   phase
	agent   *supervisorv1.Agent
	session *supervisorv1.Session // derived from its events
	early   []*supervisorv1.Event // events of sessions before the session of the chat is known
	loading string                // the id of the session that is being loaded
	// Streams that are opened before the agent is started, and whether it was.
	watches, questions, begun bool
	opened                    bool  // a session was opened
	failure                   error // the reason why none exists

	edit          editor
	past          *history
	menu          menu
	queue         []string
	turn          *turn
	turns         int // turns that this chat began
	live          live
	openQuestions []*question
	picker        *picker
	search        *search
	own           *ownCommand // the running command
	// confirming is an action that the user has to confirm.
	confirming *confirmation
	attention  attention
	loan       *loan     // lends the terminal to an editor; nil: not available
	prefixed   bool      // ctrl+x was pressed, and waits for the next key
	keyTime    time.Time // time of the last key
	quitBy     time.Time // until then ctrl+c quits
	interrupts bool      // ctrl+c has quit

	joined joined // used if Options.Attach is set

	openText    bool // text outside of a turn, which may continue
	shownAt     time.Time
	greeting    string    // printed after the history
	partial     string    // the current incomplete line
	out         []string  // rows that wait to be printed
	delayedCmds []tea.Cmd // commands that wait until fewer rows wait
	printing    bool
	framed      chan struct{}    // closed when the first frame was drawn; nil: not waited for
	expanded    bool             // more of a command's output is shown
	cut         *render.Renderer // has omitted lines of the latest command that ended; nil: none
	leaving     bool
	away        bool // another job has the terminal
	ticking     bool
	frame       int // of the spinner

	tail        []string  // last printed lines of the agent's standard error
	crashed     time.Time // time of the agent's last change of state
	setting     int       // open changes of mode, model and options
	watchCursor string
	retries     int
}

// message is the result of a command. tell processes it, and returns the next command.
type message interface{ apply(m *model) tea.Cmd }

// Messages of the model to itself.
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

// Limits of queues.
const (
	maxEarly = 1024 // events
	maxOut   = 2000 // rows
)

const (
	tick = 100 * time.Millisecond
	// looseTime is the time without new text after which text outside of a turn is complete.
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

// result returns the result of the chat.
func (m *model) result() (Result, error) {
	r := Result{Session: m.session.GetSessionId(), Used: m.turns > 0, Over: m.phase == broken, Interrupted: m.interrupts}
	can := m.agent.GetInfo().GetCapabilities()
	r.Reopens = m.o.Attach == nil && r.Session != "" && (can.GetLoadSession() || can.GetResumeSession())
	if !m.opened {
		return r, m.failure
	}
	return r, nil
}

// Init implements tea.Model. The agent is started after all streams are open, so that no event is missed.
func (m *model) Init() tea.Cmd {
	if a := m.o.Attach; a != nil {
		m.joined.pending = a.History == HistoryNone
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

// settle performs the work after each message.
func (m *model) settle() tea.Cmd {
	var cmds []tea.Cmd
	m.printIfNoRoom()
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
			text = " " // Bubble Tea does not print an empty line
		}
		// In sequence: Bubble Tea runs commands in any order.
		cmds = append(cmds, tea.Sequence(tea.Println(text), func() tea.Msg { return printedMsg{} }))
	}
	if m.leaving && !m.printing {
		cmds = append(cmds, tea.Quit)
	}
	return tea.Batch(cmds...)
}

// moves reports whether the screen has an animation.
func (m *model) moves() bool {
	return m.phase == starting || m.phase == opening || m.turn != nil || m.openText || len(m.live.tools) > 0 || len(m.openQuestions) > 0 || m.own != nil || m.now().Before(m.quitBy)
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
			held := m.delayedCmds
			m.delayedCmds = nil
			return tea.Batch(held...)
		}
	case noteMsg:
		// The log also contains the error that was shown here.
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
		return msg.apply(m)
	default:
		if fromTerminal(msg) {
			m.ignoreResponse()
		}
	}
	return nil
}

// resize processes a new size. If the terminal reports no size, resize uses the default.
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
