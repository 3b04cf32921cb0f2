package chat

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// choicesOf returns the modes or the models, and the current one. It prefers the option with that category to the
// agent's separate lists.
func choicesOf(s *supervisorv1.Session, what string) (all []*supervisorv1.ConfigChoice, current string) {
	for _, o := range s.GetOptions() {
		if o.GetCategory() == what && len(o.GetChoices()) > 0 {
			return o.GetChoices(), o.GetValue()
		}
	}
	if what == "model" {
		return s.GetModels(), s.GetModel()
	}
	for _, m := range s.GetModes() {
		all = append(all, &supervisorv1.ConfigChoice{Value: m.GetId(), Name: m.GetName(), Description: m.GetDescription()})
	}
	return all, s.GetMode()
}

// choiceName returns the name of a choice.
func choiceName(all []*supervisorv1.ConfigChoice, value string) string {
	for _, c := range all {
		if c.GetValue() == value {
			return cmp.Or(c.GetName(), c.GetValue())
		}
	}
	return value
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

// choosing sets the mode or the model by a word, or opens a picker.
func choosing(what string) func(*model, string) tea.Cmd {
	return func(m *model, arg string) tea.Cmd {
		all := choices(choicesOf(m.session, what))
		if arg != "" || len(all) == 0 {
			return m.choose(what, arg)
		}
		m.pick(&picker{title: "Choose the " + what, items: all, done: func(id string) tea.Cmd { return m.choose(what, id) }})
		return nil
	}
}

func (m *model) choose(what, word string) tea.Cmd {
	all := choices(choicesOf(m.session, what))
	id, ok := find(all, word)
	switch {
	case len(all) == 0:
		m.warn("this agent has no " + what + " to choose")
		return nil
	case !ok:
		m.warn(fmt.Sprintf("there is no %s %q; there are: %s", what, word, names(all)))
		return nil
	}
	return m.set(what, id)
}

// set sets the mode or the model.
func (m *model) set(what, id string) tea.Cmd {
	m.setting++
	agent, session := m.session.GetAgentId(), m.session.GetSessionId()
	if what == "mode" {
		return asks(m.sup, what, m.sup.Sessions.SetMode, &supervisorv1.SetModeRequest{AgentId: agent, SessionId: session, ModeId: id})
	}
	return asks(m.sup, what, m.sup.Sessions.SetModel, &supervisorv1.SetModelRequest{AgentId: agent, SessionId: session, ModelId: id})
}

// nextMode sets the next mode.
func (m *model) nextMode() tea.Cmd {
	if m.phase != ready {
		return nil
	}
	all := choices(choicesOf(m.session, "mode"))
	if len(all) < 2 {
		return nil
	}
	at := slices.IndexFunc(all, func(c choice) bool { return c.current })
	return m.set("mode", all[(at+1)%len(all)].value)
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
	return asks(m.sup, "option "+o.GetId(), m.sup.Sessions.SetConfigOption, r)
}

// choiceItems completes modes or models.
func choiceItems(what string) func(*model, string) []item {
	return func(m *model, _ string) []item { return items(choices(choicesOf(m.session, what))) }
}

// optionItems completes the names of options, and after a name its values.
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
			continue // it cannot be typed
		}
		detail := short(c.label)
		if c.detail != "" {
			detail += ": " + short(c.detail)
		}
		out = append(out, item{text: c.value, label: c.value, detail: detail})
	}
	return out
}
