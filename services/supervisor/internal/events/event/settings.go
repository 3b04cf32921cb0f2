package event

import (
	"cmp"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// Settings decodes a session's mode, model and options from the answer to a request that opens it. Absent ones are
// empty.
func Settings(result []byte) *supervisorv1.SessionOpened {
	o := &supervisorv1.SessionOpened{}
	read(result,
		"modes", func(v []byte) {
			o.ModeId, o.Modes = "", nil
			read(v, "currentModeId", &o.ModeId, "availableModes", func(v []byte) { o.Modes = listOf(v, mode) })
		},
		"configOptions", func(v []byte) { o.Options = configOptions(v) },
		"models", func(v []byte) { // an unstable addition to ACP, for agents with models outside of their options
			o.ModelId, o.Models = "", nil
			read(v, "currentModelId", &o.ModelId, "availableModels", func(v []byte) { o.Models = listOf(v, model) })
		})
	return o
}

func mode(v []byte) *supervisorv1.SessionMode {
	m := &supervisorv1.SessionMode{}
	read(v, "id", &m.Id, "name", &m.Name, "description", &m.Description)
	return where(m.Id != "", m)
}

func model(v []byte) *supervisorv1.ConfigChoice {
	c := &supervisorv1.ConfigChoice{}
	read(v, "modelId", &c.Value, "name", &c.Name, "description", &c.Description)
	return where(c.Value != "", c)
}

// configOptions decodes a session's options. It omits options without an id, or without a valid value.
func configOptions(v []byte) []*supervisorv1.ConfigOption {
	room := maxElements // for the choices of all options together
	return listOf(v, func(v []byte) *supervisorv1.ConfigOption {
		o := &supervisorv1.ConfigOption{}
		read(v, "id", &o.Id, "configId", &o.Id, "name", &o.Name, "description", &o.Description, "category", &o.Category,
			"currentValue", func(v []byte) {
				switch {
				case isTrue(v) || v[0] == 'f':
					o.Current = &supervisorv1.ConfigOption_Enabled{Enabled: isTrue(v)}
				case v[0] == '"':
					o.Current = &supervisorv1.ConfigOption_Value{Value: textOf(v)}
				default:
					o.Current = nil
				}
			},
			"options", func(v []byte) { o.Choices = choices(v, &room) })
		return where(o.Id != "" && o.Current != nil, o)
	})
}

// choices decodes the values of an option, up to a limit; a value in a group has the group's name. Groups cannot be
// nested.
func choices(v []byte, room *int) []*supervisorv1.ConfigChoice {
	var out []*supervisorv1.ConfigChoice
	add := func(c *supervisorv1.ConfigChoice, group string) {
		if c != nil && *room > 0 {
			*room--
			c.Group = group
			out = append(out, c)
		}
	}
	elements(v, func(v []byte) {
		c, name, inside := choice(v)
		add(c, "")
		if *room > 0 {
			elements(inside, func(v []byte) {
				c, _, _ := choice(v)
				add(c, name)
			})
		}
	})
	return out
}

// choice decodes one value, or a group's name and content.
func choice(v []byte) (c *supervisorv1.ConfigChoice, groupName string, inside []byte) {
	var group []byte
	c = &supervisorv1.ConfigChoice{}
	chosen := false
	read(v, "value", func(v []byte) { c.Value, chosen = acp.String(v) }, "name", &c.Name, "description", &c.Description,
		"group", &group, "groupId", &group, "options", &inside)
	if isArray(inside) {
		return nil, cmp.Or(c.Name, textOf(group)), inside
	}
	if !chosen {
		return nil, "", nil
	}
	return c, "", nil
}

// commands decodes the commands of a session. It omits commands without a name.
func commands(v []byte) []*supervisorv1.AvailableCommand {
	return listOf(v, func(v []byte) *supervisorv1.AvailableCommand {
		c := &supervisorv1.AvailableCommand{}
		read(v, "name", &c.Name, "description", &c.Description, "input", func(v []byte) {
			c.InputHint = nil
			if isObject(v) { // of any kind: an argument may follow
				hint := textOf(acp.Get(v, "hint"))
				c.InputHint = &hint
			}
		})
		return where(c.Name != "", c)
	})
}

// planEntries decodes the steps of a plan. It omits empty ones.
func planEntries(v []byte) []*supervisorv1.PlanEntry {
	return listOf(v, func(v []byte) *supervisorv1.PlanEntry {
		e := &supervisorv1.PlanEntry{}
		found := false
		read(v, "content", func(v []byte) { e.Content, found = acp.String(v) }, "priority", &e.Priority, "status", &e.Status)
		return where(found, e)
	})
}

// tokenUsage decodes the usage of a turn; nil: the agent does not report it.
func tokenUsage(v []byte) *supervisorv1.TokenUsage {
	u := &supervisorv1.TokenUsage{}
	n := read(v, "totalTokens", &u.Total, "inputTokens", &u.Input, "outputTokens", &u.Output,
		"thoughtTokens", &u.Thought, "cachedReadTokens", &u.CachedRead, "cachedWriteTokens", &u.CachedWrite)
	return where(n >= 0, u)
}
