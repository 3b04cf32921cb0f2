package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// subagent is an agent that sends one call in each turn, from a child session "s1-child" of the client's session
// "s1". params are the members of the call's params after sessionId. The agent's message is the answer to the call.
func subagent(method, params string) int {
	const update = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}}}}` + "\n"
	in := bufio.NewReader(os.Stdin)
	var prompt json.RawMessage
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var m struct {
			ID            json.RawMessage
			Method        string
			Error, Result json.RawMessage
		}
		if json.Unmarshal(line, &m) != nil {
			return 1
		}
		switch {
		case m.Method == "initialize":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1}}`+"\n", m.ID)
		case m.Method == "session/new":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"sessionId":"s1"}}`+"\n", m.ID)
		case m.Method == "session/prompt":
			prompt = m.ID
			fmt.Printf(`{"jsonrpc":"2.0","id":"c","method":%q,"params":{"sessionId":"s1-child",%s}}`+"\n", method, params)
		case m.Method == "" && string(m.ID) == `"c"`:
			fmt.Printf(update, string(m.Result)+string(m.Error))
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn"}}`+"\n", prompt)
		}
	}
}
