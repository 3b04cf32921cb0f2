package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// connected are the selected supervisors, with a connection to each.
type connected struct {
	all   []*reach.Supervisor
	close func()
	pids  func(context.Context) ([]int, error) // process ids of the running supervisors; nil: the flags select one
}

// connectAll connects to the supervisors that the flags select.
func connectAll(cmd *cobra.Command, call *command.Call, which *reach.Flags) (*connected, error) {
	all, closeAll, err := reach.All(cmd, call, which)
	if err != nil {
		closeAll()
		return nil, err
	}
	c := &connected{all: all, close: closeAll}
	if !which.Named() {
		c.pids = func(ctx context.Context) (pids []int, err error) {
			found, err := reach.Find(ctx, call, which)
			for _, s := range found {
				if s.Err == nil {
					pids = append(pids, s.PID)
				}
			}
			return pids, err
		}
	}
	return c, nil
}

// changed reports whether the set of running supervisors differs from the connected ones.
func (c *connected) changed(ctx context.Context) bool {
	if c.pids == nil {
		return false
	}
	now, err := c.pids(ctx)
	if err != nil {
		return true
	}
	var before []int
	for _, at := range c.all {
		before = append(before, at.PID)
	}
	slices.Sort(now)
	slices.Sort(before)
	return !slices.Equal(now, before)
}

// snapshot is the state at one moment.
type snapshot struct {
	supervisors int
	agents      []reach.Item[*supervisorv1.Agent]
	sessions    []reach.Item[*supervisorv1.Session]
	questions   []reach.Item[*supervisorv1.Approval]
	terminals   []reach.Item[*supervisorv1.Terminal] // with running commands
	failed      []error
}

// snapshot requests the state of all supervisors. Failed requests are reported in the snapshot.
func (c *connected) snapshot(ctx context.Context) *snapshot {
	now := &snapshot{supervisors: len(c.all)}
	for _, at := range c.all {
		ctx, stop := context.WithTimeout(ctx, reach.ListTimeout)
		agents, err1 := at.Agents.ListAgents(ctx, &supervisorv1.ListAgentsRequest{})
		sessions, err2 := at.State.ListSessions(ctx, &supervisorv1.ListSessionsRequest{})
		questions, err3 := at.Approvals.ListApprovals(ctx, &supervisorv1.ListApprovalsRequest{})
		terminals, err4 := at.State.ListTerminals(ctx, &supervisorv1.ListTerminalsRequest{})
		stop()
		if err := cmp.Or(err1, err2, err3, err4); err != nil && ctx.Err() == nil {
			now.failed = append(now.failed, fmt.Errorf("supervisor %d does not say all that it does: %w", at.PID, reach.CallErrorLine(err)))
		}
		now.agents = append(now.agents, items(at, agents.GetAgents())...)
		now.sessions = append(now.sessions, items(at, sessions.GetSessions())...)
		now.questions = append(now.questions, items(at, questions.GetApprovals())...)
		now.terminals = append(now.terminals, items(at, slices.DeleteFunc(terminals.GetTerminals(), func(t *supervisorv1.Terminal) bool { return !t.GetRunning() }))...)
	}
	slices.SortStableFunc(now.questions, func(x, y reach.Item[*supervisorv1.Approval]) int {
		return x.Of.GetTime().AsTime().Compare(y.Of.GetTime().AsTime())
	})
	slices.SortStableFunc(now.sessions, func(x, y reach.Item[*supervisorv1.Session]) int {
		return cmp.Compare(rank(x.Of), rank(y.Of))
	})
	return now
}

func items[T any](at *reach.Supervisor, list []T) (all []reach.Item[T]) {
	for _, one := range list {
		all = append(all, reach.Item[T]{At: at, Of: one})
	}
	return all
}

// rank orders active sessions before idle ones.
func rank(s *supervisorv1.Session) int {
	if s.GetTurnActive() {
		return 0
	}
	return 1
}

// text formats the snapshot for a number of columns. 0 means no limit.
func (n *snapshot) text(now time.Time, columns int, color bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %s, %s, %s  %s\n", safetext.Count(n.supervisors, "supervisor"), safetext.Count(len(n.agents), "agent"),
		safetext.Count(len(n.sessions), "session"), safetext.Count(len(n.questions), "question"), safetext.Count(len(n.terminals), "command"),
		now.Local().Format(time.TimeOnly)+" "+output.Zone(now))
	for _, err := range n.failed {
		b.WriteString(safetext.Line(err.Error()) + "\n")
	}
	for _, part := range []struct {
		title string
		table *output.Table
	}{
		{`Questions that wait ("acphost approvals answer ID")`, n.questionTable(now)}, {"Sessions", n.sessionTable(now)}, {"Agents", n.agentTable(now)}, {"Commands in terminals", n.terminalTable(now)},
	} {
		if text := part.table.Text(columns, color); text != "" {
			b.WriteString("\n" + safetext.Paint(color, "1;4", part.title) + "\n" + text)
		}
	}
	if n.supervisors == 0 && len(n.failed) == 0 {
		b.WriteString("\nno supervisor is running: \"acphost run\", \"chat\", \"prompt\" and \"serve\" start one\n")
	}
	return b.String()
}

func (n *snapshot) questionTable(now time.Time) *output.Table {
	t := output.NewTable("", "ID", "WAITS", "SESSION", "QUESTION").Long("SESSION", "QUESTION").Spare("SESSION")
	list := make([]*supervisorv1.Approval, len(n.questions))
	for i, q := range n.questions {
		list[i] = q.Of
	}
	for _, q := range n.questions {
		t.Add(reach.QuestionPrefix(q.Of, list), output.Warn(elapsed(now, q.Of.GetTime().AsTime())), output.Short(q.Of.GetSessionId(), 40),
			output.Short(render.QuestionSubject(q.Of), 200))
	}
	return t
}

func (n *snapshot) sessionTable(now time.Time) *output.Table {
	t := output.NewTable("", "AGENT", "SESSION", "STATE", "OPEN", "TURNS", "CONTEXT", "TOKENS", "COST", "DOING").
		Long("SESSION", "DOING").Spare("OPEN", "TOKENS", "COST", "TURNS")
	asks := map[string]bool{}
	for _, q := range n.questions {
		asks[q.Of.GetAgentId()+"\x00"+q.Of.GetSessionId()] = true
	}
	for _, item := range n.sessions {
		s := item.Of
		state := output.Faint("idle")
		switch {
		case asks[s.GetAgentId()+"\x00"+s.GetSessionId()]:
			state = output.Warn("asks")
		case s.GetTurnActive():
			state = output.Good("working")
		}
		t.Add(output.Short(s.GetAgentId(), 30), output.Short(s.GetSessionId(), 40), state, elapsed(now, s.GetStartTime().AsTime()), s.GetTurns(),
			context100(s.GetUsage()), thousands(s.GetTokens().GetTotal()), cost(s.GetUsage()), output.Short(does(s), 200))
	}
	return t
}

func (n *snapshot) agentTable(now time.Time) *output.Table {
	t := output.NewTable("", "AGENT", "STATE", "PID", "UP", "SESSIONS", "SUPERVISOR", "COMMAND").Long("COMMAND").Spare("SUPERVISOR", "PID")
	for _, item := range n.agents {
		a := item.Of
		t.Add(output.Short(a.GetId(), 30), reach.StateWord(a.GetState()), output.OrNone(a.GetPid()), elapsed(now, a.GetStartTime().AsTime()), len(a.GetSessionIds()),
			item.At.PID, output.Short(strings.Join(a.GetCommand(), " "), 100))
	}
	return t
}

func (n *snapshot) terminalTable(now time.Time) *output.Table {
	t := output.NewTable("", "TERMINAL", "SESSION", "RUNS", "OUTPUT", "COMMAND").Long("TERMINAL", "SESSION", "COMMAND").Spare("OUTPUT", "SESSION")
	for _, item := range n.terminals {
		x := item.Of
		t.Add(x.GetTerminalId(), output.Short(x.GetSessionId(), 40), elapsed(now, x.GetStartTime().AsTime()),
			output.Size(int64(min(x.GetOutputBytes(), 1<<62))), output.OneLine(strings.Join(x.GetArgv(), " "), 200))
	}
	return t
}

// does describes the activity of a session: the active tool, else the end of its last turn.
func does(s *supervisorv1.Session) string {
	if !s.GetTurnActive() {
		return s.GetLastStopReason()
	}
	for _, c := range slices.Backward(s.GetToolCalls()) {
		if c.GetStatus() == "in_progress" || c.GetStatus() == "pending" {
			return cmp.Or(c.GetTitle(), c.GetName(), c.GetKind())
		}
	}
	return "thinking"
}

// elapsed formats the time that has passed: "9 s", "12 min", "3 h", "2 d".
func elapsed(now, t time.Time) string {
	if t.Unix() <= 0 {
		return "-"
	}
	switch d := now.Sub(t); {
	case d < time.Minute:
		return strconv.Itoa(max(0, int(d.Seconds()))) + " s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	default:
		return strconv.Itoa(int(d.Hours()/24)) + " d"
	}
}

// context100 formats the usage of the context.
func context100(u *supervisorv1.ContextUsage) string {
	if u.GetSize() == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", float64(u.GetUsed())/float64(u.GetSize())*100)
}

func cost(u *supervisorv1.ContextUsage) string {
	if u == nil || u.Cost == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f %s", u.GetCost(), output.OneLine(u.GetCurrency(), 8))
}

func thousands(n uint64) string {
	switch {
	case n == 0:
		return "-"
	case n < 10_000:
		return strconv.FormatUint(n, 10)
	}
	return fmt.Sprintf("%.0fk", float64(n)/1000)
}

// window returns the part of a text that fits on a screen of columns and rows, from the line first on, and the number
// of its real first line.
func window(text string, first, columns, rows int) (string, int) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		if columns > 0 {
			lines[i] = safetext.Fit(line, columns)
		}
	}
	room := max(1, rows-1)
	if rows == 0 { // unknown yet
		room = len(lines)
	}
	first = max(0, min(first, len(lines)-room))
	last := min(len(lines), first+room)
	return strings.Join(append(slices.Clone(lines[first:last]), hint(first, len(lines)-last)), "\n"), first
}

// json returns the snapshot as an object for JSON: the messages of the API, each with its supervisor.
func (n *snapshot) json() (map[string]any, error) {
	agents, err1 := reach.Objects(n.agents)
	sessions, err2 := reach.Objects(n.sessions)
	questions, err3 := reach.Objects(n.questions)
	terminals, err4 := reach.Objects(n.terminals)
	return map[string]any{"supervisors": n.supervisors, "agents": agents, "sessions": sessions, "questions": questions, "terminals": terminals},
		cmp.Or(err1, err2, err3, err4)
}
