package main

import (
	"context"
	"slices"

	"github.com/coder/acp-go-sdk"
)

// settings are the user's choices for a session.
type settings struct {
	Mode     string `json:"mode"`
	Model    string `json:"model"`
	Effort   string `json:"effort"`
	Thorough bool   `json:"thorough"`
}

func defaultSettings() settings { return settings{Mode: "ask", Model: "maxi", Effort: "low"} }

// choice is the setting of an id, and the values that there are; nil: no setting is chosen by that id.
func (s *settings) choice(id string) (value *string, values []string) {
	switch id {
	case "mode":
		return &s.Mode, []string{"ask", "code"}
	case "model":
		return &s.Model, []string{"mini", "maxi"}
	case "effort":
		return &s.Effort, []string{"low", "high"}
	}
	return nil, nil
}

// offer returns the settings in the response that opens a session.
func (a *agent) offer(s settings) object {
	o := object{}
	if a.can("modes") {
		o["modes"] = object{"currentModeId": s.Mode, "availableModes": []object{
			{"id": "ask", "name": "Ask", "description": "Asks before it edits"}, {"id": "code", "name": "Code"},
		}}
	}
	if a.can("config") {
		o["configOptions"] = a.options(s)
	} else {
		o["models"] = object{"currentModelId": s.Model, "availableModels": []object{
			{"modelId": "mini", "name": "Mini", "description": "Quick"}, {"modelId": "maxi", "name": "Maxi"},
		}}
	}
	return o
}

// options are a session's options; one that is on or off only for a client that knows such.
func (a *agent) options(s settings) []object {
	list := []object{
		{"id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": s.Mode, "options": []object{
			{"value": "ask", "name": "Ask", "description": "Asks before it edits"}, {"value": "code", "name": "Code"},
		}},
		{"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": s.Model, "options": []object{
			{"group": "small", "name": "Small ones", "options": []object{{"value": "mini", "name": "Mini", "description": "Quick"}}},
			{"group": "large", "name": "Large ones", "options": []object{{"value": "maxi", "name": "Maxi"}}},
		}},
		{"id": "effort", "name": "Effort", "category": "thought_level", "type": "select", "currentValue": s.Effort, "options": []object{
			{"value": "low", "name": "Low"}, {"value": "high", "name": "High"},
		}},
	}
	if a.clientCan().Session.ConfigOptions.Boolean != nil {
		list = append(list, object{"id": "thorough", "name": "Thorough", "type": "boolean", "currentValue": s.Thorough})
	}
	return list
}

// set changes a session's settings.
func (a *agent) set(id acp.SessionId, change func(*settings) error) (settings, error) {
	s, err := a.session(id)
	if err != nil {
		return settings{}, err
	}
	s.mu.Lock()
	err = change(&s.record.Settings)
	now := s.record.Settings
	s.mu.Unlock()
	if err != nil {
		return now, err
	}
	return now, a.kept.save(s)
}

// choose sets one of a session's settings to one of its values.
func (a *agent) choose(session acp.SessionId, id, value string) (settings, error) {
	return a.set(session, func(s *settings) error {
		to, values := s.choice(id)
		switch {
		case to == nil:
			return acp.NewInvalidParams(object{"configId": id})
		case !slices.Contains(values, value):
			return acp.NewInvalidParams(object{"value": value, "values": values})
		}
		*to = value
		return nil
	})
}

func (a *agent) setMode(ctx context.Context, p struct {
	SessionID acp.SessionId `json:"sessionId"`
	ModeID    string        `json:"modeId"`
}) (any, error) {
	now, err := a.choose(p.SessionID, "mode", p.ModeID)
	if err == nil && a.can("config") {
		err = a.tell(ctx, p.SessionID, object{"sessionUpdate": "config_option_update", "configOptions": a.options(now)})
	}
	return object{}, err
}

func (a *agent) setModel(_ context.Context, p struct {
	SessionID acp.SessionId `json:"sessionId"`
	ModelID   string        `json:"modelId"`
}) (any, error) {
	_, err := a.choose(p.SessionID, "model", p.ModelID)
	return object{}, err
}

func (a *agent) setConfigOption(ctx context.Context, p struct {
	SessionID acp.SessionId `json:"sessionId"`
	ConfigID  string        `json:"configId"`
	Type      string        `json:"type"`
	Value     any           `json:"value"`
}) (any, error) {
	text, isText := p.Value.(string)
	on, isBool := p.Value.(bool)
	var now settings
	var err error
	switch {
	case p.ConfigID == "thorough" && p.Type == "boolean" && isBool:
		now, err = a.set(p.SessionID, func(s *settings) error {
			s.Thorough = on
			return nil
		})
	case p.ConfigID == "thorough", !isText:
		err = acp.NewInvalidParams(object{"value": p.Value, "type": p.Type})
	default:
		now, err = a.choose(p.SessionID, p.ConfigID, text)
	}
	if err == nil && p.ConfigID == "mode" && a.can("modes") {
		err = a.tell(ctx, p.SessionID, object{"sessionUpdate": "current_mode_update", "currentModeId": now.Mode})
	}
	return object{"configOptions": a.options(now)}, err
}
