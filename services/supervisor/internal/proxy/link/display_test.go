package link

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

// terminal is the terminal of the rig's handler. A test controls its output and its exit.
type terminal struct {
	output chan string
	exit   chan struct{}
}

// withTerminal makes the handler's terminal watchable, and opens a session in which the agent has created it.
func withTerminal(r *rig, capabilities string) *terminal {
	r.t.Helper()
	x := &terminal{output: make(chan string), exit: make(chan struct{})}
	code := uint32(3)
	r.handler.watch = func(req *terminalv1.WatchRequest, s grpc.ServerStreamingServer[terminalv1.WatchResponse]) error {
		if len(req.GetScope()) != 32 || req.GetTerminalId() != "acphost-1" {
			r.t.Errorf("watched was %v", req)
		}
		for {
			select {
			case data := <-x.output:
				if err := s.Send(&terminalv1.WatchResponse{Event: &terminalv1.WatchResponse_Data{Data: []byte(data)}}); err != nil {
					return err
				}
			case <-x.exit:
				return s.Send(&terminalv1.WatchResponse{Event: &terminalv1.WatchResponse_Exit{Exit: &terminalv1.ExitStatus{ExitCode: &code}}})
			case <-s.Context().Done():
				return s.Context().Err()
			}
		}
	}
	r.handler.wait = func(ctx context.Context, _ *terminalv1.WaitForExitRequest) (*terminalv1.WaitForExitResponse, error) {
		select {
		case <-x.exit:
			return &terminalv1.WaitForExitResponse{ExitCode: &code}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	r.open(capabilities)
	r.agent.send(`{"id":"t","method":"terminal/create","params":{"sessionId":"s","command":"make"}}`)
	r.agent.want(`{"jsonrpc":"2.0","id":"t","result":{"terminalId":"acphost-1"}}`)
	return x
}

const (
	showsTerminal = `{"jsonrpc":"2.0", "method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"make","content":[{"type":"terminal","terminalId":"acphost-1"}]}}}`
	ourUpdate     = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"c",`
	ourToolCall   = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"make","content":[{"type":"terminal","terminalId":"acphost-1"}],"_meta":{"terminal_info":{"terminal_id":"acphost-1","cwd":"/w"}}}}}`
)

func TestDisplay_ShowsExitBeforeAgentGetsIt(t *testing.T) {
	r := newRig(t)
	x := withTerminal(r, `{"_meta":{"terminal_output":true}}`)
	r.agent.send(showsTerminal)
	r.client.want(ourToolCall)
	r.client.want(showsTerminal)
	x.output <- "\x1b[1mbuilt\r\n"
	r.client.want(ourUpdate + `"_meta":{"terminal_output":{"terminal_id":"acphost-1","data":"\u001b[1mbuilt\r\n"}}}}}`)
	r.agent.send(`{"id":"w","method":"terminal/wait_for_exit","params":{"sessionId":"s","terminalId":"acphost-1"}}`)
	x.output <- "last"
	close(x.exit)
	// The agent's answer is read first: earlier messages to the client are in the pipe by then.
	r.agent.want(`{"jsonrpc":"2.0","id":"w","result":{"exitCode":3}}`)
	r.client.want(ourUpdate + `"_meta":{"terminal_output":{"terminal_id":"acphost-1","data":"last"}}}}}`)
	r.client.want(ourUpdate + `"_meta":{"terminal_exit":{"terminal_id":"acphost-1","exit_code":3,"signal":null}}}}}`)
}

func TestDisplay_QuestionShowsTerminal(t *testing.T) {
	r := newRig(t)
	x := withTerminal(r, `{"_meta":{"terminal_output":true}}`)
	defer close(x.exit)
	question := `{"id":7,"method":"session/request_permission","params":{"sessionId":"s","options":[],"toolCall":{"toolCallId":"c","title":"make","content":[{"type":"terminal","terminalId":"acphost-1"}]}}}`
	r.agent.send(question)
	r.client.want(ourToolCall)
	r.client.want(question)
}

func TestDisplay_TextWithoutTerminalOutput(t *testing.T) {
	r := newRig(t)
	x := withTerminal(r, `{}`)
	r.agent.send(showsTerminal)
	text := func(text string) string {
		return `"content":[{"type":"content","content":{"type":"text","text":"` + text + `"}}]}}}`
	}
	shown := strings.Replace(showsTerminal, `"content":[{"type":"terminal","terminalId":"acphost-1"}]}}}`, text("```\\n```"), 1)
	r.client.want(shown)
	x.output <- "built\r\n"
	r.client.want(ourUpdate + text("```\\nbuilt\\n```"))
	close(x.exit)
	r.agent.send(`{"id":"w","method":"terminal/wait_for_exit","params":{"sessionId":"s","terminalId":"acphost-1"}}`)
	r.agent.want(`{"jsonrpc":"2.0","id":"w","result":{"exitCode":3}}`)
	r.client.want(ourUpdate + text("```\\nbuilt\\n```\\nexit code 3"))
}

func TestDisplay_AgentContentReplacesText(t *testing.T) {
	r := newRig(t)
	x := withTerminal(r, `{}`)
	r.agent.send(showsTerminal)
	r.client.next()
	x.output <- "built"
	r.client.next()
	done := `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"content","content":{"type":"text","text":"done"}}]}}}`
	r.agent.send(done)
	r.client.want(done)
	close(x.exit)
	r.agent.send(`{"id":"w","method":"terminal/wait_for_exit","params":{"sessionId":"s","terminalId":"acphost-1"}}`)
	r.agent.want(`{"jsonrpc":"2.0","id":"w","result":{"exitCode":3}}`)
	r.agent.send(`{"method":"_marker"}`)
	r.client.want(`{"method":"_marker"}`)
}

func TestDisplay_TextForEndedSession(t *testing.T) {
	r := newRig(t)
	r.open(`{"_meta":{"terminal_output":true}}`)
	r.agent.send(showsTerminal)
	r.client.want(strings.Replace(showsTerminal, `{"type":"terminal","terminalId":"acphost-1"}`,
		`{"type":"content","content":{"type":"text","text":"[the output of this terminal is no longer available]"}}`, 1))
	own := strings.Replace(showsTerminal, "acphost-1", "agents-own", 1)
	r.agent.send(own)
	r.client.want(own)
}
