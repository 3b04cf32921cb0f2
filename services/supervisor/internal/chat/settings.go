package chat

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// modeChoices are the modes that there are, from where the supervisor takes them.
func modeChoices(s *supervisorv1.Session) []choice {
	if o := option(s, "mode"); o != nil {
		return optionChoices(o)
	}
	var all []choice
	for _, mode := range s.GetModes() {
		all = append(all, choice{
			value: mode.GetId(), label: cmp.Or(mode.GetName(), mode.GetId()), detail: mode.GetDescription(), current: mode.GetId() == s.GetMode(),
		})
	}
	return all
}

func modelChoices(s *supervisorv1.Session) []choice {
	if o := option(s, "model"); o != nil {
		return optionChoices(o)
	}
	return choices(s.GetModels(), s.GetModel())
}

func optionChoices(o *supervisorv1.ConfigOption) []choice {
	if _, ok := o.GetCurrent().(*supervisorv1.ConfigOption_Enabled); ok {
		return []choice{
			{value: "on", label: "on", current: o.GetEnabled()},
			{value: "off", label: "off", current: !o.GetEnabled()},
		}
	}
	return choices(o.GetChoices(), o.GetValue())
}

func choices(all []*supervisorv1.ConfigChoice, current string) []choice {
	var out []choice
	for _, c := range all {
		out = append(out, choice{
			value: c.GetValue(), label: cmp.Or(c.GetName(), c.GetValue()), detail: c.GetDescription(), current: c.GetValue() == current,
		})
	}
	return out
}

func (m *model) modeCommand(arg string) tea.Cmd {
	return m.chooseOr(arg, "mode", modeChoices(m.session), m.chooseMode)
}

func (m *model) modelCommand(arg string) tea.Cmd {
	return m.chooseOr(arg, "model", modelChoices(m.session), m.chooseModel)
}

// chooseOr chooses by a word, or has the person pick.
func (m *model) chooseOr(arg, what string, all []choice, choose func(string) tea.Cmd) tea.Cmd {
	switch {
	case arg != "":
		return choose(arg)
	case len(all) == 0:
		m.warn("this agent has no " + what + " to choose")
	default:
		m.pick(&picker{title: "Choose the " + what, items: all, done: choose})
	}
	return nil
}

func (m *model) chooseMode(word string) tea.Cmd {
	return m.choose(word, "mode", modeChoices(m.session), m.sup.setMode)
}

func (m *model) chooseModel(word string) tea.Cmd {
	return m.choose(word, "model", modelChoices(m.session), m.sup.setModel)
}

func (m *model) choose(word, what string, all []choice, set func(agent, session, id string) tea.Cmd) tea.Cmd {
	id, ok := find(all, word)
	switch {
	case len(all) == 0:
		m.warn("this agent has no " + what + " to choose")
		return nil
	case !ok:
		m.warn(fmt.Sprintf("there is no %s %q; there are: %s", what, word, names(all)))
		return nil
	}
	m.setting++
	return set(m.session.GetAgentId(), m.session.GetSessionId(), id)
}

// nextMode takes the mode behind the current one.
func (m *model) nextMode() tea.Cmd {
	if m.phase != ready {
		return nil
	}
	all := modeChoices(m.session)
	if len(all) < 2 {
		return nil
	}
	at := slices.IndexFunc(all, func(c choice) bool { return c.current })
	m.setting++
	return m.sup.setMode(m.session.GetAgentId(), m.session.GetSessionId(), all[(at+1)%len(all)].value)
}

func (m *model) setCommand(arg string) tea.Cmd {
	name, value, _ := strings.Cut(arg, " ")
	value = strings.TrimSpace(value)
	var all []choice
	for _, o := range m.session.GetOptions() {
		all = append(all, choice{value: o.GetId(), label: cmp.Or(o.GetName(), o.GetId()), detail: optionValue(o)})
	}
	if len(all) == 0 {
		m.warn("this agent has no options")
		return nil
	}
	if name == "" {
		m.pick(&picker{title: "Options", items: all, done: func(id string) tea.Cmd { return m.setCommand(id) }})
		return nil
	}
	id, ok := find(all, name)
	if !ok {
		m.warn(fmt.Sprintf("there is no option %q; there are: %s", name, names(all)))
		return nil
	}
	o := m.session.GetOptions()[slices.IndexFunc(m.session.GetOptions(), func(o *supervisorv1.ConfigOption) bool { return o.GetId() == id })]
	if value == "" {
		if values := optionChoices(o); len(values) > 0 {
			m.pick(&picker{title: "Choose: " + safetext.Line(cmp.Or(o.GetName(), id)), items: values, done: func(v string) tea.Cmd { return m.setOption(o, v) }})
		}
		return nil
	}
	return m.setOption(o, value)
}

func (m *model) setOption(o *supervisorv1.ConfigOption, word string) tea.Cmd {
	r := &supervisorv1.SetConfigOptionRequest{AgentId: m.session.GetAgentId(), SessionId: m.session.GetSessionId(), ConfigId: o.GetId()}
	value, ok := find(optionChoices(o), word)
	if !ok {
		m.warn(fmt.Sprintf("%s has no value %q; there are: %s", safetext.Line(o.GetId()), word, names(optionChoices(o))))
		return nil
	}
	if _, is := o.GetCurrent().(*supervisorv1.ConfigOption_Enabled); is {
		r.To = &supervisorv1.SetConfigOptionRequest_Enabled{Enabled: value == "on"}
	} else {
		r.To = &supervisorv1.SetConfigOptionRequest_Value{Value: value}
	}
	m.setting++
	return m.sup.setOption(r)
}

func modeItems(m *model, _ string) []item { return items(modeChoices(m.session)) }

func modelItems(m *model, _ string) []item { return items(modelChoices(m.session)) }

// optionItems are the options' names, and behind a name its values.
func optionItems(m *model, arg string) []item {
	name, _, behind := strings.Cut(arg, " ")
	var all []choice
	for _, o := range m.session.GetOptions() {
		if behind && o.GetId() == name {
			return items(optionChoices(o))
		}
		all = append(all, choice{value: o.GetId(), label: o.GetName(), detail: optionValue(o)})
	}
	if behind {
		return nil
	}
	return items(all)
}

func items(all []choice) []item {
	var out []item
	for _, c := range all {
		if c.value != short(c.value) || c.value == "" {
			continue // nothing that could be typed
		}
		detail := short(c.label)
		if c.detail != "" {
			detail += ": " + short(c.detail)
		}
		out = append(out, item{text: c.value, label: c.value, detail: detail})
	}
	return out
}
