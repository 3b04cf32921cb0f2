package e2e

import (
	"encoding/json"

	"github.com/acphost/acphost/test/wire"
)

// PieceOf is the text of a piece of a message; "" for other messages.
func PieceOf(m wire.Message) string {
	var params struct {
		Update struct {
			SessionUpdate string
			Content       json.RawMessage
		}
	}
	if err := json.Unmarshal(m.Params, &params); err != nil || params.Update.SessionUpdate != "agent_message_chunk" {
		return ""
	}
	var content struct{ Text string }
	_ = json.Unmarshal(params.Update.Content, &content)
	return content.Text
}
