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
	"github.com/acphost/acphost/services/supervisor/internal/event"
)

const (
	// restoreTimeout is how long an agent may take to put a session's model and options back. The mode has the time of a
	// call for itself: the others must not use up what matters most.
	restoreTimeout = time.Minute
	// restoreRounds is how often what the session says is compared with what it should.
	restoreRounds = 2
)

// errReset says that a setting did not stay.
var errReset = errors.New("the agent took it, and then said otherwise")

// remember keeps in which mode, with which model and options each open session was when the process before ended. It is
// asked before there is another process, whose answers would be taken for what was chosen. What could not be put back yet,
// since a process ended meanwhile, stays.
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
		case s.held != "": // but for the mode, it is as the person wants it
			now.Mode = s.before.GetMode()
			s.before, s.held = now, ""
		}
		reg.mu.Unlock()
	}
}

// settings are a session's mode, model and options, as events tell them, with what there is to choose from.
func (s *session) settings() *supervisorv1.Session {
	shown := &supervisorv1.Session{SessionId: s.id}
	s.agent.reg.opts.Hub.Show(s.agent.identity.ID, shown)
	return &supervisorv1.Session{
		SessionId: s.id, Mode: shown.GetMode(), Modes: shown.GetModes(), Model: shown.GetModel(), Models: shown.GetModels(), Options: shown.GetOptions(),
	}
}

// restore puts a session that was resumed back into its model, its options and its mode: agents resume sessions as they
// begin them. Until it returns the agent runs for nobody else, so that nothing happens in the session before.
//
// Where the mode cannot be restored the session stays, but takes no prompt until somebody sets a mode. Modes differ in what
// an agent does without asking, and nobody but a person can tell whether the one that it is in now does for what was
// wanted. Closing it instead would have the same prompt go into a new session, in the very same mode.
func (r *run) restore(s *session, answer []byte) {
	reg := r.agent.reg
	reg.mu.Lock()
	before := s.before
	reg.mu.Unlock()
	if before == nil {
		return
	}
	p := &restoring{run: r, session: s, all: settingsOf(before), said: map[string]bool{}, until: time.Now().Add(restoreTimeout)}
	p.hears(event.Settings(answer))
	if !p.apply() {
		return
	}
	mode, others := p.missing()
	reg.mu.Lock()
	if r.agent.sessions[s.id] != s {
		reg.mu.Unlock()
		return
	}
	if s.held = mode; mode == "" {
		s.before = nil
	}
	reg.mu.Unlock()
	p.tell(mode, others)
}

// chosen says that somebody has set a session's mode, whatever it was before.
func (r *run) chosen(s *session) {
	reg := r.agent.reg
	reg.mu.Lock()
	defer reg.mu.Unlock()
	if r.agent.run == r {
		s.before, s.held = nil, ""
	}
}

// setting is what is chosen of one thing.
type setting struct {
	// key tells it from all others: categoryMode, categoryModel, or that of an option.
	key    string
	name   string // for people
	value  string
	option *supervisorv1.ConfigOption // nil: it is the mode or the model
	err    error                      // why it was not set
}

// settingsOf are a session's settings in the order in which they are set: what there is of an option can depend on the
// model, and the mode has to stay whatever else is set.
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

// valueOf is what an option is set to, as text.
func valueOf(o *supervisorv1.ConfigOption) string {
	if c, flag := o.GetCurrent().(*supervisorv1.ConfigOption_Enabled); flag {
		return map[bool]string{true: "on", false: "off"}[c.Enabled]
	}
	return o.GetValue()
}

// in is what a session has for the setting; false: nothing.
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

// change says how the setting is made.
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

// restoring is one session that is put back into its settings.
type restoring struct {
	run     *run
	session *session
	all     []*setting
	until   time.Time
	// said are the settings of which the new process has said something. What is known of others is what the one before
	// said, so they are set even if they seem to be right.
	said map[string]bool
}

// hears takes in which settings an answer speaks of.
func (p *restoring) hears(o *supervisorv1.SessionOpened) {
	if o.GetModeId() != "" {
		p.said[categoryMode] = true
	}
	if o.GetModelId() != "" {
		p.said[categoryModel] = true
	}
	for _, option := range o.GetOptions() {
		p.said[optionKey(option)] = true
		for _, category := range []string{categoryMode, categoryModel} {
			if is(option, category) {
				p.said[category] = true
			}
		}
	}
}

// apply sets what differs, and once more what was changed by that; false: the process is over.
func (p *restoring) apply() bool {
	for range restoreRounds {
		changed := false
		for _, t := range p.all {
			now := p.now()
			if value, has := t.in(now); has && value == t.value && p.said[t.key] {
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

// now is what the session says.
func (p *restoring) now() *supervisorv1.Session {
	p.run.agent.reg.syncHub(p.run.agent.ctx)
	return p.session.settings()
}

// set has the agent make one setting.
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
	p.hears(&supervisorv1.SessionOpened{Options: event.Settings(answer).GetOptions()}) // it can tell of nothing else
	p.said[t.key] = true
	return nil
}

// missing says what the settings were and are that could not be restored.
func (p *restoring) missing() (mode string, others []string) {
	now := p.now()
	for _, t := range p.all {
		value, has := t.in(now)
		if has && value == t.value && p.said[t.key] {
			continue
		}
		is := "is " + strconv.Quote(excerpt(value)) + " now"
		switch {
		case !p.said[t.key]:
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

// tell says what could not be restored.
func (p *restoring) tell(mode string, parts []string) {
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
