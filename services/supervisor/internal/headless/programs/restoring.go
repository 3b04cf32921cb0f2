package programs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

const (
	// restoreTimeout limits the time until an agent has restored a session's model and options. The mode, which matters
	// most, has its own timeout of a call.
	restoreTimeout = time.Minute
	// restoreRounds is how often the session's settings are compared with the wanted ones.
	restoreRounds = 2
)

// errReset means that a setting was accepted but not kept.
var errReset = errors.New("the agent accepted it, and then reported another value")

// remember saves the mode, the model and the options of each open session when its process has ended. It is called
// before the next process starts, whose answers would be taken for choices. Settings that were not restored yet,
// because a process ended meanwhile, stay saved.
func (a *instance) remember() {
	reg := a.reg
	all := a.openSessions()
	if len(all) == 0 {
		return
	}
	reg.syncHub(a.ctx)
	for _, s := range all {
		now := s.settings()
		reg.mu.Lock()
		switch {
		case s.before == nil:
			s.before = now
		case s.rejectReason != "": // except for the mode, it has the wanted settings
			now.Mode = s.before.GetMode()
			s.before, s.rejectReason = now, ""
		}
		reg.mu.Unlock()
	}
}

// settings returns a session's mode, model and options according to events, with the available choices.
func (s *session) settings() *supervisorv1.Session {
	shown := &supervisorv1.Session{SessionId: s.id}
	s.agent.reg.opts.Hub.Show(s.agent.identity.ID, shown)
	return &supervisorv1.Session{
		SessionId: s.id, Mode: shown.GetMode(), Modes: shown.GetModes(), Model: shown.GetModel(), Models: shown.GetModels(), Options: shown.GetOptions(),
	}
}

// restore sets the model, the options and the mode of a resumed session again: agents resume sessions with the settings
// of new ones. Until it returns, the agent is not available to callers, so that nothing happens in the session before.
//
// If the mode cannot be restored, the session stays open, but rejects prompts until a mode is set. Modes differ in what
// an agent does without asking, and only a person can decide whether the present mode is acceptable. Closing the
// session instead would send the same prompt to a new session, in the same mode.
func (r *run) restore(s *session, answer []byte) {
	reg := r.agent.reg
	reg.mu.Lock()
	before := s.before
	reg.mu.Unlock()
	if before == nil {
		return
	}
	p := &restoring{run: r, session: s, all: settingsOf(before), reported: map[string]bool{}, until: time.Now().Add(restoreTimeout)}
	p.recordReported(event.Settings(answer))
	if !p.apply() {
		return
	}
	mode, others := p.missing()
	reg.mu.Lock()
	if r.agent.sessions[s.id] != s {
		reg.mu.Unlock()
		return
	}
	if s.rejectReason = mode; mode == "" {
		s.before = nil
	}
	reg.mu.Unlock()
	p.sendNotice(mode, others)
}

// modeChosen records that a session's mode was set, so that the earlier one does not matter.
func (r *run) modeChosen(s *session) {
	reg := r.agent.reg
	reg.mu.Lock()
	defer reg.mu.Unlock()
	if r.agent.run == r {
		s.before, s.rejectReason = nil, ""
	}
}

// setting is one setting of a session.
type setting struct {
	// key identifies the setting: categoryMode, categoryModel, or the option's.
	key    string
	name   string // for users
	value  string
	option *supervisorv1.ConfigOption // nil: it is the mode or the model
	err    error                      // why it was not set
}

// settingsOf returns a session's settings in the order in which they are set: the available options can depend on the
// model, and the mode is set last so that no other setting changes it.
func settingsOf(s *supervisorv1.Session) []*setting {
	var all []*setting
	if s.GetModel() != "" {
		all = append(all, &setting{key: categoryModel, name: "model", value: s.GetModel()})
	}
	for _, o := range s.GetOptions() {
		if s.GetMode() != "" && o == byCategory(s, categoryMode) || s.GetModel() != "" && o == byCategory(s, categoryModel) {
			continue
		}
		all = append(all, &setting{key: optionKey(o), name: fmt.Sprintf("option %q", excerpt(o.GetId())), value: valueOf(o), option: o})
	}
	if s.GetMode() != "" {
		all = append(all, &setting{key: categoryMode, name: "mode", value: s.GetMode()})
	}
	return all
}

func optionKey(o *supervisorv1.ConfigOption) string { return "option " + o.GetId() }

// valueOf returns the value of an option as text.
func valueOf(o *supervisorv1.ConfigOption) string {
	if c, flag := o.GetCurrent().(*supervisorv1.ConfigOption_Enabled); flag {
		return map[bool]string{true: "on", false: "off"}[c.Enabled]
	}
	return o.GetValue()
}

// in returns a session's value of the setting; false: it has none.
func (t *setting) in(s *supervisorv1.Session) (value string, has bool) {
	switch t.key {
	case categoryMode:
		return s.GetMode(), s.GetMode() != ""
	case categoryModel:
		return s.GetModel(), s.GetModel() != ""
	}
	for _, o := range s.GetOptions() {
		if o.GetId() == t.option.GetId() {
			return valueOf(o), true
		}
	}
	return "", false
}

// change returns the request that makes the setting.
func (t *setting) change(r *run, s *supervisorv1.Session) (change, error) {
	switch t.key {
	case categoryMode:
		return r.mode(s, t.value)
	case categoryModel:
		return r.model(s, t.value)
	}
	req := &supervisorv1.SetConfigOptionRequest{ConfigId: t.option.GetId(), To: &supervisorv1.SetConfigOptionRequest_Value{Value: t.value}}
	if c, flag := t.option.GetCurrent().(*supervisorv1.ConfigOption_Enabled); flag {
		req.To = &supervisorv1.SetConfigOptionRequest_Enabled{Enabled: c.Enabled}
	}
	return r.option(s, req)
}

// restoring restores the settings of one session.
type restoring struct {
	run     *run
	session *session
	all     []*setting
	until   time.Time
	// reported are the settings that the new process has reported. Values of others were reported by the previous
	// process, so they are set even if they look right.
	reported map[string]bool
}

// recordReported records the settings that an answer reports.
func (p *restoring) recordReported(o *supervisorv1.SessionOpened) {
	if o.GetModeId() != "" {
		p.reported[categoryMode] = true
	}
	if o.GetModelId() != "" {
		p.reported[categoryModel] = true
	}
	for _, option := range o.GetOptions() {
		p.reported[optionKey(option)] = true
		for _, category := range []string{categoryMode, categoryModel} {
			if is(option, category) {
				p.reported[category] = true
			}
		}
	}
}

// apply sets the settings that differ, and once more those that this has changed. It returns false if the process has
// ended.
func (p *restoring) apply() bool {
	for range restoreRounds {
		changed := false
		for _, t := range p.all {
			now := p.now()
			if value, has := t.in(now); has && value == t.value && p.reported[t.key] {
				t.err = nil
				continue
			}
			t.err = p.set(t, now)
			if p.run.over() {
				return false
			}
			changed = changed || t.err == nil
		}
		if !changed {
			break
		}
	}
	return true
}

// now returns the session's present settings.
func (p *restoring) now() *supervisorv1.Session {
	p.run.agent.reg.syncHub(p.run.agent.ctx)
	return p.session.settings()
}

// set sends one setting to the agent.
func (p *restoring) set(t *setting, now *supervisorv1.Session) error {
	limit := callTimeout
	if t.key != categoryMode {
		if limit = time.Until(p.until).Round(time.Millisecond); limit <= 0 {
			return errors.New("the agent took too long for the others")
		}
	}
	c, err := t.change(p.run, now)
	if err != nil {
		return err
	}
	answer, err := p.run.call(p.run.agent.ctx, c.method, c.params, limit)
	if err != nil {
		return err
	}
	p.recordReported(&supervisorv1.SessionOpened{Options: event.Settings(answer).GetOptions()}) // other fields are not in it
	p.reported[t.key] = true
	return nil
}

// missing returns the settings that could not be restored, with their wanted and present values.
func (p *restoring) missing() (mode string, others []string) {
	now := p.now()
	for _, t := range p.all {
		value, has := t.in(now)
		if has && value == t.value && p.reported[t.key] {
			continue
		}
		is := "is " + strconv.Quote(excerpt(value)) + " now"
		switch {
		case !p.reported[t.key]:
			is = "may be another one now"
		case !has:
			is = "is not there any more"
		}
		t.err = cmp.Or(t.err, errReset)
		why := fmt.Sprintf("its %s was %q and %s (%v)", t.name, excerpt(t.value), is, t.err)
		if t.key == categoryMode {
			mode = why
		} else {
			others = append(others, why)
		}
	}
	return mode, others
}

// sendNotice sends a notice of settings that could not be restored.
func (p *restoring) sendNotice(mode string, parts []string) {
	s := p.session
	severity, title := "warning", "The session is not as it was"
	switch {
	case mode != "":
		severity, title = "error", "The session's mode could not be restored"
		parts = slices.Insert(parts, 0, mode+"; it takes no prompt until its mode is set")
	case len(parts) == 0:
		return
	}
	p.run.agent.reg.log.Warn("a session could not be put back into its settings", "agent", s.agent.identity.ID, "session", s.id, "missing", parts)
	why := fmt.Sprintf("Agent %q was started again, and session %q is not as it was: %s.", s.agent.identity.ID, s.id, strings.Join(parts, "; "))
	s.agent.reg.notice(s, severity, title, strings.ToValidUTF8(why[:min(len(why), maxWhy)], ""))
}
