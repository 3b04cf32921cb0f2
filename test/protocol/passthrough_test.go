package protocol_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestPassthrough_KeepsBytes(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	fromAgent := []string{
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"},"extra":` + odd + `}}}`,
		`{ "method" : "session/update" , "params" : { "update" : {"sessionUpdate":"_unheard","x":` + odd + `} , "sessionId" : "s1" } , "jsonrpc" : "2.0" }` + "\r",
		`{"method":"session\/update","params":{"sessionId":"\u0073\u0031","update":{"sessionUpdate":"plan","entries":[]}},"jsonrpc":"2.0"}`,
		`{"method":"_acme.com/event","params":` + odd + `}`,
		`{"jsonrpc":"2.0","method":"_acme.com/ask","params":` + odd + `,"id":"\u0071-1"}`,
		`{"params":[1,2,3],"id":1.0,"method":"elicitation/create","jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"nobody","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"x"}}}`,
		`{"jsonrpc":"2.0","error":{"code":-32700,"message":"parse error"}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"what?"}}`,
	}
	for _, line := range fromAgent {
		s.Agent.Write(line)
		if got := string(s.Next().Raw); got != line {
			t.Errorf("the editor got\n%s\nwant\n%s", got, line)
		}
	}
	fromEditor := []string{
		`{"jsonrpc":"2.0","id":"\u0071-1","result":` + odd + `}`,
		`{"id":1.0,"error":{"message":"no","code":-32001,"data":` + odd + `}}`,
		`{"jsonrpc":"2.0","id":"p\u0031","method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"x","_meta":` + odd + `}]}}`,
		`{"method":"session/set_mode","id":-7,"params":{"sessionId":"s1","modeId":"m"}}`,
		`{"jsonrpc":"2.0","method":"_acme.com/note","params":` + odd + `}`,
		`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s1"}}`,
	}
	for _, line := range fromEditor {
		s.Write(line)
		if got := string(s.Agent.Next().Raw); got != line {
			t.Errorf("the agent got\n%s\nwant\n%s", got, line)
		}
	}
	for _, line := range []string{
		`{"result":{"stopReason":"end_turn","x":` + odd + `},"id":"p\u0031"}`,
		`{"jsonrpc":"2.0","id":-7,"error":{"code":-32602,"message":"no such mode"}}`,
	} {
		s.Agent.Write(line)
		if got := string(s.Next().Raw); got != line {
			t.Errorf("the editor got\n%s\nwant\n%s", got, line)
		}
	}
	if status := s.Finish(); status != 0 {
		t.Errorf("the exit status is %d, want 0", status)
	}
}

func TestPassthrough_20MiBBothWays(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	text := strings.Repeat("0123456789 \\u2028 \\\" ü\u2028 ", 20<<20/26)
	update := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}}}}`
	s.Agent.Write(update)
	if got := s.Next(); string(got.Raw) != update {
		t.Errorf("the editor got %d bytes, want the %d that were sent", len(got.Raw), len(update))
	}
	prompt := `{"jsonrpc":"2.0","id":1000,"method":"session/prompt","params":{"sessionId":"s1","prompt":[{"type":"text","text":"` + text + `"}]}}`
	s.Write(prompt)
	if got := s.Agent.Next(); string(got.Raw) != prompt {
		t.Errorf("the agent got %d bytes, want the %d that were sent", len(got.Raw), len(prompt))
	}
	s.Finish()
}

func TestPassthrough_KeepsOrderOfUpdates(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "a\n")
	s := p.Fixture(t, nil)
	const count = 500
	var want []string
	var reading sync.WaitGroup
	reading.Go(func() {
		for range count / 10 {
			s.Read("a.txt") // answered aside, and never in the way
		}
	})
	for i := range count {
		line := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","n":` + strings.Repeat("1", 1+i%300) + `}}}`
		want = append(want, line)
		s.Agent.Write(line)
	}
	for i, line := range want {
		if got := string(s.Next().Raw); got != line {
			t.Fatalf("line %d is\n%s\nwant\n%s", i, got, line)
		}
	}
	reading.Wait()
	s.Finish()
}

func TestObserve_RewritesNothing(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	st := p.Stage(t)
	h := p.Start(t, []string{"--observe"}, st.Command)
	agent := st.Play(t)
	both := []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":false},"odd":` + odd + `}}}`,
		`{"jsonrpc":"2.0","id":0,"method":"fs/read_text_file","params":{"sessionId":"s1","path":"/etc/hostname"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"t"},"options":[]}}`,
		`[{"jsonrpc":"2.0","id":2,"method":"a"},{"id":3,"method":"b"}]`,
		`this is no JSON`,
		``,
		`{"id":4,"id":5,"method":"x","Method":"y"}`,
		`{"jsonrpc":"2.0","id":77,"result":{}}`,
	}
	for _, line := range both {
		h.Write(line)
		if got := string(agent.Next().Raw); got != line {
			t.Errorf("the agent got %q, want %q", got, line)
		}
		agent.Write(line)
		if got := string(h.Next().Raw); got != line {
			t.Errorf("the editor got %q, want %q", got, line)
		}
	}
	for _, pid := range h.Family() {
		for _, name := range []string{"fsd", "termd", "permd"} {
			if strings.Contains(wire.Describe([]int{pid}), e2e.Program(name)) {
				t.Errorf("%s runs, though nothing is routed", name)
			}
		}
	}
	h.Finish()
}

func TestInitialize_RewritesOnlyCapabilities(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, flags, sent, want string
	}{
		{"handlers answer the methods that the editor does not have", "", `{}`, `{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true}`},
		{"the editor's own stays where it is in charge", "--fs=front --terminal=deny", `{"fs":{"readTextFile":true,"_meta":{"x":1}},"terminal":true,"_meta":{"terminal_output":true}}`,
			`{"fs":{"readTextFile":true,"_meta":{"x":1}},"terminal":false,"_meta":{"terminal_output":true}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := e2e.NewPlace(t)
			st := p.Stage(t)
			h := p.Start(t, strings.Fields(c.flags), st.Command)
			agent := st.Play(t)
			h.Initialize(c.sent)
			var got struct {
				ProtocolVersion    int
				ClientCapabilities any
			}
			agent.Expect("initialize").Decode(t, &got)
			var want any
			(wire.Message{Result: []byte(c.want)}).Decode(t, &want)
			if !e2e.EqualJSON(t, got.ClientCapabilities, want) || got.ProtocolVersion != 1 {
				t.Errorf("the agent was offered %v, want %v", got, c.want)
			}
			h.Finish()
		})
	}
}

// odd are values as peers write them that a proxy which decodes and encodes again would change.
const odd = `{"z":1,"a":2,"1e2":1E+2,"n":-0.0,"big":12345678901234567890.10,"esc":"\u0061\/\ud83d\ude00","raw":"` + "\u2028ü\u007f" + `","dup":1,"dup":2,"_meta":{"k":[ 1 ,2 ]},"sp" : null }`
