package host

import (
	"time"

	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal/index"
)

// Record names one of the records that a supervisor keeps.
type Record string

// The records: the messages of sessions, and the decisions about permissions.
const (
	RecordSessions  Record = "sessions"
	RecordDecisions Record = "decisions"
)

// unrecorded calls Options.Unrecorded, if set.
func (h *host) unrecorded(what Record, err error) {
	if h.opts.Unrecorded != nil {
		h.opts.Unrecorded(what, err)
	}
}

// openJournal opens the journal. If it cannot be opened, sessions are not recorded.
func (h *host) openJournal() {
	cfg := h.config.GetJournal()
	if cfg.GetDisabled() {
		return
	}
	if cfg.GetDir() == "" {
		h.log.Info("sessions are not recorded: neither XDG_STATE_HOME nor HOME is set, nor journal.dir")
		return
	}
	j, err := journal.Open(journal.Options{
		Dir:             cfg.GetDir(),
		Agent:           h.agentName(),
		Version:         h.opts.Version,
		Instance:        h.instance,
		Content:         cfg.GetContent(),
		LateUpdates:     true,
		MaxSessionBytes: int64(cfg.GetMaxSessionBytes()),
		MaxAge:          time.Duration(cfg.GetMaxAgeDays()) * 24 * time.Hour,
		MaxTotal:        int64(cfg.GetMaxTotalBytes()),
		Logger:          h.log,
		Index:           index.Update,
		Failing:         func(_ string, err error) { h.unrecorded(RecordSessions, err) },
	})
	if err != nil {
		h.log.Warn("sessions are not recorded", "error", err)
		h.unrecorded(RecordSessions, err)
		return
	}
	h.journal = j
}

func (h *host) closeJournal() {
	if h.journal == nil {
		return
	}
	if err := h.journal.Close(); err != nil {
		h.log.Warn("close the journal", "error", err)
	}
}

// deniedVariables returns the configured patterns of variables that terminals do not inherit. The journal must not
// contain them either.
func deniedVariables(c *configv1.Config, terminals []string) (patterns []string) {
	for _, terminal := range terminals {
		settings := c.GetHandlers()[terminal].GetSettings().GetFields()
		for _, name := range [...]string{"env_deny", "envDeny"} {
			for _, v := range settings[name].GetListValue().GetValues() {
				patterns = append(patterns, v.GetStringValue())
			}
		}
	}
	return patterns
}
