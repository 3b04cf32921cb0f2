package host

import (
	"context"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal/index"
	"github.com/acphost/acphost/services/supervisor/internal/events/usage"
	"github.com/acphost/acphost/services/supervisor/internal/policy/audit"
)

// maxQuarters limits the sums of one audit file: quarters of an hour in which an agent was active.
const maxQuarters = 20_000

// countDecision adds a decision to the sums of its file.
func countDecision(sum *usage.Decisions, b *audit.Brief) {
	sum.Add(b.Time, b.Agent, &usage.Decision{
		Verdict: b.Verdict, Unasked: b.Door == "report", Repeats: b.Repeats,
		Policy: time.Duration(b.LatencyMicros) * time.Microsecond, User: time.Duration(b.AskedMillis) * time.Millisecond,
	})
}

// GetUsage implements admin.State. It answers one call at a time: a call reads files, and later calls reuse the sums of
// earlier ones.
func (h *host) GetUsage(ctx context.Context, req *supervisorv1.GetUsageRequest) (*supervisorv1.GetUsageResponse, error) {
	select {
	case h.summing <- struct{}{}:
		defer func() { <-h.summing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	days := make([]time.Time, len(req.GetDays()))
	for i, day := range req.GetDays() {
		days[i] = day.AsTime()
	}
	sums, from, until := usage.New(days), days[0], days[len(days)-1]
	if dir := h.config.GetJournal().GetDir(); dir != "" {
		err := index.Usage(ctx, dir, from, until, func(at time.Time, agent string, t *usage.Turns) error {
			sums.Turns(at, agent, t)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if file := h.config.GetPermission().GetAudit().GetFile(); file != "" {
		if h.decisions == nil {
			h.decisions = audit.NewTally(file, countDecision, func(d *usage.Decisions) bool { return d.Len() <= maxQuarters })
		}
		all, err := h.decisions.Sums(ctx, from)
		if err != nil {
			return nil, err
		}
		for _, some := range all {
			sums.Decisions(some)
		}
	}
	out := sums.Response()
	out.NotRecorded = h.notRecorded()
	return out, nil
}

// notRecorded describes the usage that is not recorded, and the setting for it.
func (h *host) notRecorded() (why []string) {
	add := func(text string) { why = append(why, text) }
	switch cfg := h.config.GetJournal(); {
	case cfg.GetDisabled():
		add("Sessions are not recorded, so that turns, tokens and cost are not known: leave out journal.disabled.")
	case cfg.GetDir() == "":
		add("Sessions are not recorded, so that turns, tokens and cost are not known: name a folder by journal.dir, since neither XDG_STATE_HOME nor HOME is set.")
	case h.journal == nil:
		add("Sessions are not recorded, so that turns, tokens and cost are not known: journal.dir cannot be written, and the log says why.")
	case !cfg.GetContent():
		add("Sessions are recorded without content, so that tokens and cost are not known: set journal.content to true.")
	}
	switch perm := h.config.GetPermission(); {
	case len(h.policyFiles) == 0:
		add("No policy decides, so that there are no decisions: set permission.policy.")
	case perm.GetAudit().GetDisabled():
		add("Decisions are not recorded: leave out permission.audit.disabled.")
	case h.audit == nil:
		add("Decisions are not recorded: name a file that can be written by permission.audit.file.")
	}
	return why
}
