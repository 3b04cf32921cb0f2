package attach

import (
	"encoding/json"

	"github.com/acphost/acphost/services/gatewayd/internal/relay"
)

// The roles of ACP's proposal: a controller may act in a session, an observer only reads.
const (
	controller = "controller"
	observer   = "observer"
)

// capability is the value of session/attach in the answer to initialize.
var capability = json.RawMessage(`{"roles":["controller","observer"]}`)

// initialize records the client's capabilities, and answers initialize if the client has no own agent.
func (a *agent) initialize(m relay.Message, frame []byte) bool {
	parsed, err := params[struct {
		Client struct {
			Elicitation json.RawMessage `json:"elicitation"`
		} `json:"clientCapabilities"`
	}](frame)
	a.mu.Lock()
	a.forms = err == nil && len(parsed.Client.Elicitation) > 0 && string(parsed.Client.Elicitation) != "null"
	if a.own != nil {
		a.initializeID = m.ID
	}
	a.mu.Unlock()
	if a.own != nil {
		return false
	}
	a.do(func() {
		a.answer(m, map[string]any{
			"protocolVersion": 1, "authMethods": []any{}, "agentInfo": map[string]string{"name": "gatewayd", "title": "acphost", "version": "1"},
			"agentCapabilities": map[string]any{"sessionCapabilities": map[string]any{"attach": capability}},
		})
	})
	return true
}

// advertise adds the capability to attach to the own agent's answer to initialize. It does not change an answer that is
// not ACP v1.
func (a *agent) advertise(frames [][]byte, initializeID string) {
	for i, f := range frames {
		m, err := relay.Read(f)
		if err != nil || m.Kind != relay.Response || m.ID != initializeID {
			continue
		}
		a.mu.Lock()
		a.initializeID = ""
		a.mu.Unlock()
		var parsed struct {
			Result struct {
				Version int `json:"protocolVersion"`
			} `json:"result"`
		}
		if json.Unmarshal(f, &parsed) == nil && parsed.Result.Version == 1 {
			if with := added(f, "result", "agentCapabilities", "sessionCapabilities", "attach"); with != nil {
				frames[i] = with
			}
		}
		return
	}
}

// added returns an object with the capability at a path, and creates missing objects on the path; nil: another value is
// there.
func added(object []byte, name string, below ...string) []byte {
	var members map[string]json.RawMessage
	if len(object) > 0 && json.Unmarshal(object, &members) != nil {
		return nil
	}
	if members == nil {
		members = map[string]json.RawMessage{}
	}
	member := []byte(capability)
	if len(below) > 0 {
		member = added(members[name], below[0], below[1:]...)
	}
	if member == nil {
		return nil
	}
	members[name] = member
	return encode(members)
}
