package prompt

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/acphost/acphost/internal/ordered"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// A status line appears after statusDelay without output, and counts seconds.
const (
	statusTick  = time.Second
	statusDelay = time.Second
)

// waitingForModel is the status while the agent reports no activity.
const waitingForModel = "waiting for the model"

// progress is the state of the status line. Only the goroutine of run uses it. The zero value is ready.
type progress struct {
	what  string
	since time.Time // begin of the current activity
	quiet time.Time // time of the last output
	tools ordered.Map[string, string]
}

// ticks returns a channel with the times at which to check the status line, and a function that stops it. Without a
// screen for the line there are no ticks.
func (g *progress) ticks(place *screen) (<-chan time.Time, func()) {
	if place == nil {
		return nil, func() {}
	}
	t := time.NewTicker(statusTick)
	return t.C, t.Stop
}

// begin records a new activity.
func (g *progress) begin(what string) {
	now := time.Now()
	g.what, g.since, g.quiet = what, now, now
}

// event records the activity in an event.
func (g *progress) event(ev *supervisorv1.Event) {
	report := reportIn(ev)
	switch {
	case report != nil:
	case g.tools.Len() > 0:
		g.quiet = time.Now()
		return
	default:
		g.begin(waitingForModel)
		return
	}
	id := report.GetToolCallId()
	if client.ToolCallEnded(report.GetStatus()) {
		g.tools.Delete(id)
	} else {
		known, _ := g.tools.Get(id)
		g.tools.Keep(id, cmp.Or(report.GetTitle(), known, "a tool"), maxWatched)
	}
	what := waitingForModel
	for _, title := range g.tools.Backward() { // the newest
		what = "running: " + safetext.Line(title)
		break
	}
	if what != g.what {
		g.begin(what)
	}
	g.quiet = time.Now()
}

// line returns the status line. It is empty for a moment after output.
func (g *progress) line(now time.Time) string {
	if g.what == "" || now.Sub(g.quiet) < statusDelay {
		return ""
	}
	return fmt.Sprintf("%s, %d s", g.what, int(now.Sub(g.since).Seconds()))
}

// step sets the current activity from the goroutine of drive.
func (p *promptRun) step(ctx context.Context, what string) {
	p.post(ctx, func() { p.progress.begin(what) })
}

// showProgress shows the status line, if there was no output for long enough and no question is open.
func (p *promptRun) showProgress() {
	if p.ended != nil || p.asker.current != nil {
		return
	}
	if line := p.progress.line(time.Now()); line != "" {
		p.status.status(line)
	}
}

// clearProgress removes the status line.
func (p *promptRun) clearProgress() {
	if p.status != nil {
		p.status.clear()
	}
}

// agentName returns the name of an agent for users.
func agentName(a *supervisorv1.StartAgentRequest) string {
	if a.GetPreset() != "" {
		return safetext.Line(a.GetPreset())
	}
	return safetext.Line(filepath.Base(a.GetCommand()[0]))
}
