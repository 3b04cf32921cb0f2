package host

import (
	"time"

	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/services/supervisor/internal/journal"
	"github.com/acphost/acphost/services/supervisor/internal/journal/index"
)

// Record is one of the records that a supervisor keeps.
type Record string

// The records: what passes in sessions, and what was decided about permissions.
const (
	RecordSessions  Record = "sessions"
	RecordDecisions Record = "decisions"
)

// unrecorded tells a person that a record cannot be written, where there is one to be told.
func (h *host) unrecorded(what Record, err error) {
	if h.opts.Unrecorded != nil {
		h.opts.Unrecorded(what, err)
	}
}

// openJournal opens the record of what passes. Sessions go on without one where there can be none.
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

// deniedVariables are the patterns for variables that terminals do not inherit, where the configuration has some: what is
// not for commands of the agent is not for the record either.
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
