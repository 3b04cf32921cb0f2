package event

import (
	"cmp"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Settings reads what the answer to a request that opens a session says of the session's mode, its
// model and its options. What it says nothing of is empty.
func Settings(result []byte) *supervisorv1.SessionOpened {
	o := &supervisorv1.SessionOpened{}
	members(result, func(name, v []byte) {
		switch string(name) {
		case "modes":
			o.ModeId, o.Modes = modes(v)
		case "configOptions":
			o.Options = configOptions(v)
		case "models":
			o.ModelId, o.Models = models(v)
		}
	})
	return o
}

// modes reads a session's mode and those that there are.
func modes(v []byte) (current string, all []*supervisorv1.SessionMode) {
	members(v, func(name, v []byte) {
		switch string(name) {
		case "currentModeId":
			current = textOf(v)
		case "availableModes":
			all = nil
			elements(v, func(v []byte) {
				m := &supervisorv1.SessionMode{}
				members(v, func(name, v []byte) {
					switch string(name) {
					case "id":
						m.Id = textOf(v)
					case "name":
						m.Name = textOf(v)
					case "description":
						m.Description = textOf(v)
					}
				})
				if m.Id != "" {
					all = append(all, m)
				}
			})
		}
	})
	return current, all
}

// models reads the models of agents that have them apart from their options: an addition to ACP that was never stable.
func models(v []byte) (current string, all []*supervisorv1.ConfigChoice) {
	members(v, func(name, v []byte) {
		switch string(name) {
		case "currentModelId":
			current = textOf(v)
		case "availableModels":
			all = nil
			elements(v, func(v []byte) {
				c := &supervisorv1.ConfigChoice{}
				members(v, func(name, v []byte) {
					switch string(name) {
					case "modelId":
						c.Value = textOf(v)
					case "name":
						c.Name = textOf(v)
					case "description":
						c.Description = textOf(v)
					}
				})
				if c.Value != "" {
					all = append(all, c)
				}
			})
		}
	})
	return current, all
}

// configOptions reads a session's options. One without an id, or without a value that can be read, is left out.
func configOptions(v []byte) []*supervisorv1.ConfigOption {
	var out []*supervisorv1.ConfigOption
	room := maxElements // for choices, of all options together
	elements(v, func(v []byte) {
		o := &supervisorv1.ConfigOption{}
		members(v, func(name, v []byte) {
			switch string(name) {
			case "id":
				o.Id = textOf(v)
			case "name":
				o.Name = textOf(v)
			case "description":
				o.Description = textOf(v)
			case "category":
				o.Category = textOf(v)
			case "currentValue":
				switch {
				case isTrue(v) || v[0] == 'f':
					o.Current = &supervisorv1.ConfigOption_Enabled{Enabled: isTrue(v)}
				case v[0] == '"':
					o.Current = &supervisorv1.ConfigOption_Value{Value: textOf(v)}
				default:
					o.Current = nil
				}
			case "options":
				o.Choices = choices(v, &room)
			}
		})
		if o.Id != "" && o.Current != nil {
			out = append(out, o)
		}
	})
	return out
}

// choices reads what an option can be, as long as there is room; those in groups know their group's name. Groups have no
// groups in them.
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

// choice reads one choice, or a group's name and what is in it.
func choice(v []byte) (c *supervisorv1.ConfigChoice, groupName string, inside []byte) {
	var group []byte
	c = &supervisorv1.ConfigChoice{}
	chosen := false
	members(v, func(name, v []byte) {
		switch string(name) {
		case "value":
			c.Value, chosen = text(v)
		case "name":
			c.Name = textOf(v)
		case "description":
			c.Description = textOf(v)
		case "group":
			group = v
		case "options":
			inside = v
		}
	})
	if isArray(inside) {
		return nil, cmp.Or(c.Name, textOf(group)), inside
	}
	if !chosen {
		return nil, "", nil
	}
	return c, "", nil
}

// commands reads the commands of a session. One without a name is left out.
func commands(v []byte) []*supervisorv1.AvailableCommand {
	var out []*supervisorv1.AvailableCommand
	elements(v, func(v []byte) {
		c := &supervisorv1.AvailableCommand{}
		members(v, func(name, v []byte) {
			switch string(name) {
			case "name":
				c.Name = textOf(v)
			case "description":
				c.Description = textOf(v)
			case "input":
				c.InputHint = nil
				if isObject(v) { // of whatever kind: something may follow
					hint := textOf(get(v, "hint"))
					c.InputHint = &hint
				}
			}
		})
		if c.Name != "" {
			out = append(out, c)
		}
	})
	return out
}

// planEntries reads the steps of a plan. One that says nothing is left out.
func planEntries(v []byte) []*supervisorv1.PlanEntry {
	var out []*supervisorv1.PlanEntry
	elements(v, func(v []byte) {
		e := &supervisorv1.PlanEntry{}
		said := false
		members(v, func(name, v []byte) {
			switch string(name) {
			case "content":
				e.Content, said = text(v)
			case "priority":
				e.Priority = textOf(v)
			case "status":
				e.Status = textOf(v)
			}
		})
		if said {
			out = append(out, e)
		}
	})
	return out
}

// tokenUsage reads what a turn took; nil: the agent does not say.
func tokenUsage(v []byte) *supervisorv1.TokenUsage {
	if !isObject(v) {
		return nil
	}
	u := &supervisorv1.TokenUsage{}
	members(v, func(name, v []byte) {
		switch string(name) {
		case "totalTokens":
			u.Total = count(v)
		case "inputTokens":
			u.Input = count(v)
		case "outputTokens":
			u.Output = count(v)
		case "thoughtTokens":
			u.Thought = count(v)
		case "cachedReadTokens":
			u.CachedRead = count(v)
		case "cachedWriteTokens":
			u.CachedWrite = count(v)
		}
	})
	return u
}
