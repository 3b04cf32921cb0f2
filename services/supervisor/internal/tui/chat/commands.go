package chat

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// command is a slash command of acphost.
type command struct {
	name, args, help string
	// session means that it needs an open session.
	session bool
	run     func(m *model, arg string) tea.Cmd
	// values returns completions of the argument. Nil means that there are none.
	values func(m *model, arg string) []item
	words  bool // values completes the last word
}

// commandList returns all commands, in the order of the help.
func commandList() []command {
	return []command{
		{name: "help", help: "show this", run: (*model).help},
		{name: "new", help: "begin a new session", run: (*model).newSession},
		{name: "sessions", help: "go on with a session that the agent has stored", run: (*model).listSessions},
		{name: "mode", args: "[NAME]", help: "choose the mode; shift+tab takes the next", session: true, run: choosing("mode"), values: choiceItems("mode")},
		{name: "model", args: "[NAME]", help: "choose the model", session: true, run: choosing("model"), values: choiceItems("model")},
		{name: "set", args: "[OPTION [VALUE]]", help: "set one of the agent's options", session: true, run: (*model).setCommand, values: optionItems, words: true},
		{name: "cancel", help: "end the turn; esc does too", run: func(m *model, _ string) tea.Cmd { return m.cancel() }},
		{name: "files", help: "list the files that were touched", session: true, run: inquiry("files")},
		{name: "tools", help: "count the tool calls", session: true, run: inquiry("tools")},
		{name: "usage", help: "show what the session took", session: true, run: inquiry("usage")},
		{name: "export", args: "FILE", help: "write the session to a file: .md, .html or .ndjson", session: true, run: (*model).export},
		{name: "quit", help: "leave; ctrl+d does too", run: func(m *model, _ string) tea.Cmd { return m.leave() }},
	}
}

// command runs a text that is a command of acphost. It returns false if the text is for the agent. If the agent has a
// command with the same name, the agent's is used, and acphost's needs a second slash.
func (m *model) command(text string) (tea.Cmd, bool) {
	if !strings.HasPrefix(text, "/") || strings.Contains(text, "\n") {
		return nil, false
	}
	name, arg, _ := strings.Cut(text, " ")
	c, known := m.ownCommand(name)
	switch {
	case c == nil && (known || strings.Contains(strings.TrimLeft(name, "/"), "/")): // a command of the agent, or a path
		return nil, false
	case c == nil:
		m.warn("there is no command " + name + "; /help lists them. To say this to the agent, begin with a space")
		return nil, true
	case m.o.Attach != nil && (c.name == "new" || c.name == "sessions"):
		m.warn("this chat has joined a session and begins none: \"acphost chat --agent NAME\" does")
		return nil, true
	case c.session && m.phase != ready:
		m.warn("there is no session for " + name)
		return nil, true
	}
	return c.run(m, strings.TrimSpace(arg)), true
}

// ownCommand returns acphost's command with a name, including its slashes. known reports that it is a command of the
// agent.
func (m *model) ownCommand(name string) (c *command, known bool) {
	bare, ours := strings.CutPrefix(name, "//")
	if !ours {
		bare = strings.TrimPrefix(name, "/")
		if m.agentHas(bare) {
			return nil, true
		}
	}
	for _, c := range commandList() {
		if c.name == bare {
			return &c, false
		}
	}
	return nil, false
}

func (m *model) help(string) tea.Cmd {
	var b strings.Builder
	for _, c := range commandList() {
		slash := "/"
		if m.agentHas(c.name) {
			slash = "//" // the agent has a command with this name
		}
		fmt.Fprintf(&b, "  %-24s %s\n", slash+strings.TrimSpace(c.name+" "+c.args), c.help)
	}
	if all := m.session.GetCommands(); len(all) > 0 {
		b.WriteString("\nThe agent's:\n")
		for _, c := range all[:min(len(all), 100)] {
			hint := ""
			if c.InputHint != nil {
				hint = " " + short(c.GetInputHint())
			}
			fmt.Fprintf(&b, "  %-24s %s\n", "/"+short(c.GetName())+hint, short(c.GetDescription()))
		}
	}
	b.WriteString(`
  !COMMAND                 run a command in your shell; the agent does not see it
  @PATH                    attach a file; tab completes
  enter                    send; while a turn runs, for after it
  alt+enter, ctrl+j        a new line
  up, down                 what was typed before; take back what is queued
  ctrl+r                   search what was typed before
  ctrl+x ctrl+e            write in your editor ($VISUAL, $EDITOR)
  shift+tab                the next mode
  esc                      cancel the turn
  ctrl+o                   more of a command's output, while it runs and after
  ctrl+l                   draw the screen again
  ctrl+z                   stop acphost; "fg" goes on, with the turn too
  ctrl+d                   leave, where nothing is written; ctrl+c twice too

A command that the agent has too is the agent's; with two slashes it is acphost's: //help.`)
	m.print(m.ownText(b.String()))
	return nil
}

// newSession begins a new session. It first restarts an agent that has ended.
func (m *model) newSession(string) tea.Cmd {
	if m.turn != nil && !m.turn.cancelled {
		m.warn("a turn runs; esc cancels it")
		return nil
	}
	m.abandon()
	if m.phase == starting || m.phase == opening {
		m.warn("wait for the session that is being opened")
		return nil
	}
	if m.agent == nil {
		m.phase = starting
		return m.sup.start(m.o.Agent)
	}
	if m.agent.GetState() != supervisorv1.AgentState_AGENT_STATE_RUNNING {
		m.phase, m.session = starting, nil
		return m.sup.restart(m.agent.GetId())
	}
	return m.openSession(m.first(), m.o.Cwd)
}

// abandon leaves a cancelled turn that does not end, because the agent ignores the cancellation.
func (m *model) abandon() {
	if m.turn == nil {
		return
	}
	m.flush()
	m.live.endTurn()
	m.turn = nil
	m.warn("the turn did not end; it is left behind with its session")
}

func (m *model) listSessions(string) tea.Cmd {
	can := m.agent.GetInfo().GetCapabilities()
	switch {
	case m.turn != nil:
		m.warn("a turn runs; esc cancels it")
	case m.agent == nil || m.phase == starting || m.phase == opening:
		m.warn("wait for the agent")
	case !can.GetListSessions():
		m.warn("this agent does not list its sessions")
	case !can.GetLoadSession() && !can.GetResumeSession():
		m.warn("this agent can neither load nor resume a session")
	default:
		return m.sup.stored(m.agent.GetId(), m.o.Cwd)
	}
	return nil
}

func (msg storedMsg) apply(m *model) tea.Cmd {
	if msg.err != nil {
		m.fail("list the agent's sessions: " + problem(msg.err))
		return nil
	}
	p := &picker{title: "Sessions in " + safetext.Line(m.o.Cwd), done: func(id string) tea.Cmd {
		if id == m.session.GetSessionId() && m.phase == ready {
			return nil
		}
		return m.openSession(id, m.o.Cwd)
	}}
	for _, s := range msg.sessions {
		p.items = append(p.items, choice{
			value: s.GetSessionId(), label: cmp.Or(short(s.GetTitle()), short(s.GetSessionId())), detail: short(s.GetUpdatedAt()),
			current: s.GetSessionId() == m.session.GetSessionId(),
		})
	}
	if len(p.items) == 0 {
		m.note("the agent has stored no session in " + m.o.Cwd)
		return nil
	}
	if msg.more {
		p.title += fmt.Sprintf(", the first %d", len(p.items))
	}
	m.pick(p)
	return nil
}

// inquiry returns a function that requests the session's state.
func inquiry(what string) func(*model, string) tea.Cmd {
	return func(m *model, _ string) tea.Cmd {
		r := &supervisorv1.GetSessionRequest{AgentId: m.session.GetAgentId(), SessionId: m.session.GetSessionId()}
		return asks(m.sup, what, m.sup.State.GetSession, r)
	}
}

// apply processes the session's state after a change or an inquiry.
func (msg sessionMsg) apply(m *model) tea.Cmd {
	changed := msg.what == "mode" || msg.what == "model" || strings.HasPrefix(msg.what, "option ")
	if changed {
		m.setting = max(m.setting-1, 0)
	}
	if msg.err != nil {
		m.fail(msg.what + ": " + problem(msg.err))
		return nil
	}
	s := msg.session
	if m.session == nil || s.GetSessionId() != m.session.GetSessionId() {
		return nil
	}
	switch msg.what {
	case "files":
		m.printFiles(s)
	case "tools":
		m.printTools(s)
	case "usage":
		m.printUsage(s)
	default:
		m.session.Mode, m.session.Model, m.session.Options = s.GetMode(), s.GetModel(), s.GetOptions()
	}
	return nil
}

func (m *model) printFiles(s *supervisorv1.Session) {
	if len(s.GetFiles()) == 0 {
		m.note("no file was touched")
		return
	}
	for _, f := range s.GetFiles() {
		var did []string
		for _, c := range []struct {
			n    uint32
			noun string
		}{{f.GetReads(), "read"}, {f.GetWrites(), "write"}, {f.GetReported(), "report"}} {
			if c.n > 0 {
				did = append(did, safetext.Count(uint64(c.n), c.noun))
			}
		}
		path := f.GetPath()
		if rel, err := filepath.Rel(m.o.Cwd, path); err == nil && filepath.IsLocal(rel) {
			path = rel
		}
		m.print("  " + safetext.Line(path) + m.sty.dim("  "+strings.Join(did, ", ")))
	}
}

func (m *model) printTools(s *supervisorv1.Session) {
	if len(s.GetToolKinds()) == 0 && len(s.GetTools()) == 0 {
		m.note("no tool was called")
		return
	}
	for _, all := range []map[string]uint64{s.GetTools(), s.GetToolKinds()} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			m.print("  " + safetext.Line(cmp.Or(name, "other")) + m.sty.dim("  "+safetext.Count(all[name], "call")))
		}
		if len(all) > 0 && len(s.GetTools()) > 0 {
			m.print(" ")
		}
	}
}

func (m *model) printUsage(s *supervisorv1.Session) {
	text := safetext.Count(s.GetTurns(), "turn")
	if u := render.Usage(s.GetTokens(), s.GetUsage()); u != "" {
		text += " · " + u
	} else {
		text += " · the agent does not say what they took"
	}
	m.print("  " + text)
}

// export writes the session to a file.
func (m *model) export(file string) tea.Cmd {
	switch {
	case m.o.Export == nil:
		m.warn("sessions cannot be exported here")
		return nil
	case file == "":
		m.warn("/export takes a file's name: .md, .html or .ndjson")
		return nil
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(m.o.Cwd, file)
	}
	id := m.session.GetSessionId()
	return m.sup.do(func(ctx context.Context) tea.Msg {
		if err := m.o.Export(ctx, id, file); err != nil {
			return noticeMsg{text: "export: " + err.Error(), bad: true}
		}
		return noticeMsg{text: "written to " + file}
	})
}
