package prompt

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/ordered"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// A status line comes when nothing was told for statusDelay, and counts seconds.
const (
	statusTick  = time.Second
	statusDelay = time.Second
)

// waitingForModel is what is under way while the agent does nothing that it tells of.
const waitingForModel = "waiting for the model"

// progress is what is under way, for a status line. It is for run's goroutine. The zero value is ready.
type progress struct {
	what  string
	since time.Time // when that began
	quiet time.Time // when something was last told
	tools ordered.Map[string, string]
}

// ticks returns when to look whether a status line is due, and how to end that. There are none without a place for the line.
func (g *progress) ticks(place *screen) (<-chan time.Time, func()) {
	if place == nil {
		return nil, func() {}
	}
	t := time.NewTicker(statusTick)
	return t.C, t.Stop
}

// begin notes that something else is under way.
func (g *progress) begin(what string) {
	now := time.Now()
	g.what, g.since, g.quiet = what, now, now
}

// event notes what an event tells.
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

// line is the status line; empty while something was told a moment ago.
func (g *progress) line(now time.Time) string {
	if g.what == "" || now.Sub(g.quiet) < statusDelay {
		return ""
	}
	return fmt.Sprintf("%s, %d s", g.what, int(now.Sub(g.since).Seconds()))
}

// step says that something else is under way, from the goroutine that drives.
func (p *promptRun) step(ctx context.Context, what string) {
	p.post(ctx, func() { p.progress.begin(what) })
}

// showProgress shows what is under way, if it was quiet for long enough and nothing is asked.
func (p *promptRun) showProgress() {
	if p.ended != nil || p.asker.current != nil {
		return
	}
	if line := p.progress.line(time.Now()); line != "" {
		p.status.status(line)
	}
}

// clearProgress takes the status line away.
func (p *promptRun) clearProgress() {
	if p.status != nil {
		p.status.clear()
	}
}

// agentName is how a person calls an agent.
func agentName(a *supervisorv1.StartAgentRequest) string {
	if a.GetPreset() != "" {
		return safetext.Line(a.GetPreset())
	}
	return safetext.Line(filepath.Base(a.GetCommand()[0]))
}
