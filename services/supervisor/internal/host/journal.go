package host

import (
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/journal"
	"github.com/acphost/acphost/services/supervisor/internal/link"
)

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
		Content:         cfg.GetContent(),
		MaxSessionBytes: int64(cfg.GetMaxSessionBytes()),
		MaxAge:          time.Duration(cfg.GetMaxAgeDays()) * 24 * time.Hour,
		MaxTotal:        int64(cfg.GetMaxTotalBytes()),
		Logger:          h.log,
	})
	if err != nil {
		h.log.Warn("sessions are not recorded", "error", err)
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

// observer is the journal as the link knows it; nil if there is none.
func (h *host) observer() link.Observer {
	if h.journal == nil {
		return nil
	}
	return recorder{h.journal}
}

// recorder hands the journal what the link sees.
type recorder struct{ journal *journal.Journal }

var recorded = [...]journal.Direction{
	link.AgentToFront:   journal.AgentToFront,
	link.FrontToAgent:   journal.FrontToAgent,
	link.AgentToHandler: journal.AgentToHandler,
	link.HandlerToAgent: journal.HandlerToAgent,
	link.OursToFront:    journal.OursToFront,
	link.OursToAgent:    journal.OursToAgent,
	link.FrontToOurs:    journal.FrontToOurs,
}

func (r recorder) Frame(f link.Frame) {
	r.journal.Frame(journal.Frame{
		Time:      f.Time,
		Direction: recorded[f.Direction],
		Handler:   f.Handler,
		Scanned:   f.Scanned,
		Method:    f.Method,
		ID:        f.ID,
		Session:   f.SessionID,
		Line:      f.Line,
		Rest:      f.Rest,
	})
}
