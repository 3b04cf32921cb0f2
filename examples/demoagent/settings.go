package main

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/coder/acp-go-sdk"
)

// settings are what can be chosen of a session.
type settings struct {
	Mode     string `json:"mode"`
	Model    string `json:"model"`
	Effort   string `json:"effort"`
	Thorough bool   `json:"thorough"`
}

func defaultSettings() settings { return settings{Mode: "ask", Model: "maxi", Effort: "low"} }

// Values that there are.
func modes() []string   { return []string{"ask", "code"} }
func models() []string  { return []string{"mini", "maxi"} }
func efforts() []string { return []string{"low", "high"} }

func modeList() []object {
	return []object{{"id": "ask", "name": "Ask", "description": "Asks before it edits"}, {"id": "code", "name": "Code"}}
}

// offer is what the answer that opens a session says of its settings.
func (a *agent) offer(s settings) object {
	o := object{}
	if a.can("modes") {
		o["modes"] = object{"currentModeId": s.Mode, "availableModes": modeList()}
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

// set changes a session's settings and tells what else the client has to know of it.
func (a *agent) set(ctx context.Context, id acp.SessionId, change func(*settings) error, tell func(settings) object) (settings, error) {
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
	if update := tell(now); update != nil {
		if err := a.conn.SendNotification(ctx, acp.ClientMethodSessionUpdate, object{"sessionId": id, "update": update}); err != nil {
			return now, err
		}
	}
	return now, a.kept.save(s)
}

func choose(to *string, value string, from []string) error {
	if !slices.Contains(from, value) {
		return acp.NewInvalidParams(object{"value": value, "values": from})
	}
	*to = value
	return nil
}

func (a *agent) setMode(ctx context.Context, p struct {
	SessionID acp.SessionId `json:"sessionId"`
	ModeID    string        `json:"modeId"`
}) (any, error) {
	_, err := a.set(ctx, p.SessionID, func(s *settings) error { return choose(&s.Mode, p.ModeID, modes()) }, func(now settings) object {
		if !a.can("config") {
			return nil
		}
		return object{"sessionUpdate": "config_option_update", "configOptions": a.options(now)}
	})
	return object{}, err
}

func (a *agent) setModel(ctx context.Context, p struct {
	SessionID acp.SessionId `json:"sessionId"`
	ModelID   string        `json:"modelId"`
}) (any, error) {
	_, err := a.set(ctx, p.SessionID, func(s *settings) error { return choose(&s.Model, p.ModelID, models()) }, func(settings) object { return nil })
	return object{}, err
}

func (a *agent) setConfigOption(ctx context.Context, p struct {
	SessionID acp.SessionId   `json:"sessionId"`
	ConfigID  string          `json:"configId"`
	Type      string          `json:"type"`
	Value     json.RawMessage `json:"value"`
}) (any, error) {
	now, err := a.set(ctx, p.SessionID, func(s *settings) error {
		var text string
		if p.ConfigID == "thorough" {
			if p.Type != "boolean" || json.Unmarshal(p.Value, &s.Thorough) != nil {
				return acp.NewInvalidParams(object{"value": p.Value, "type": p.Type})
			}
			return nil
		}
		if err := json.Unmarshal(p.Value, &text); err != nil {
			return acp.NewInvalidParams(object{"value": p.Value})
		}
		switch p.ConfigID {
		case "mode":
			return choose(&s.Mode, text, modes())
		case "model":
			return choose(&s.Model, text, models())
		case "effort":
			return choose(&s.Effort, text, efforts())
		}
		return acp.NewInvalidParams(object{"configId": p.ConfigID})
	}, func(now settings) object {
		if p.ConfigID != "mode" || !a.can("modes") {
			return nil
		}
		return object{"sessionUpdate": "current_mode_update", "currentModeId": now.Mode}
	})
	return object{"configOptions": a.options(now)}, err
}
