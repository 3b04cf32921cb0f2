package link

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

// witness records the frames that it is shown.
type witness struct {
	mu   sync.Mutex
	seen []string
}

func (w *witness) Frame(f frame.Frame) {
	line := string(f.Line)
	for _, b := range f.Rest {
		line += string(b)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, strings.TrimSpace(fmt.Sprintf("%d %s %s %s", f.Direction, f.Handler, f.Method, strings.TrimSuffix(line, "\n"))))
}

// of returns the lines of a direction, in order.
func (w *witness) of(d frame.Direction) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, s := range w.seen {
		if strings.HasPrefix(s, fmt.Sprint(int(d), " ")) {
			_, line, _ := strings.Cut(s, "{")
			all = append(all, "{"+line)
		}
	}
	return all
}

func TestObserver_GetsFramesInOrder(t *testing.T) {
	w := &witness{}
	r := newRig(t, func(o *Options) { o.Observer = w })
	r.open("{}")
	var sent []string
	for i := range 500 {
		sent = append(sent, fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%d"}}}}`, i))
	}
	before := len(w.of(frame.AgentToClient))
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(r.agent.in, strings.Join(sent, "\n")+"\n")
		written <- err
	}()
	for _, line := range sent {
		r.client.want(line)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if got := w.of(frame.AgentToClient)[before:]; strings.Join(got, "\n") != strings.Join(sent, "\n") {
		t.Errorf("%d of %d lines, or another order", len(got), len(sent))
	}
}

func TestObserver_GetsRoutedCalls(t *testing.T) {
	w := &witness{}
	r := newRig(t, func(o *Options) { o.Observer = w })
	r.handler.decide = func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ALLOW}, nil
	}
	r.handler.read = func(context.Context, *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
		return &fsv1.ReadTextFileResponse{Content: "of the file"}, nil
	}
	r.open("{}")
	call := `{"jsonrpc":"2.0","id":"a","method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/f"}}`
	r.agent.send(call)
	answer := r.agent.next()
	if !strings.Contains(answer, "of the file") {
		t.Fatal(answer)
	}
	if got := w.of(frame.AgentToHandler); len(got) != 1 || got[0] != call {
		t.Errorf("to handlers: %q", got)
	}
	if got := w.of(frame.HandlerToAgent); len(got) != 1 || got[0] != answer {
		t.Errorf("from handlers: %q, want %q", got, answer)
	}
	question := `{"jsonrpc":"2.0","id":"b","method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t","kind":"edit","title":"Edit"},"options":[{"optionId":"y","kind":"allow_once","name":"Yes"}]}}`
	r.agent.send(question)
	chosen := r.agent.next()
	if got := w.of(frame.OursToAgent); len(got) != 1 || got[0] != chosen {
		t.Errorf("ours: %q, want %q", got, chosen)
	}
	if got := w.of(frame.AgentToHandler); len(got) != 2 || got[1] != question {
		t.Errorf("to the gate: %q", got)
	}
}

func TestObserver_GetsOwnQuestions(t *testing.T) {
	w := &witness{}
	r := gatedRig(t, func(o *Options) { o.Observer = w })
	r.open("{}")
	r.agent.send(`{"jsonrpc":"2.0","id":7,"method":"fs/write_text_file","params":{"sessionId":"s","path":"/w/f","content":"x"}}`)
	shown, question := r.client.next(), r.client.next()
	if !strings.Contains(shown, "tool_call") || !strings.Contains(question, "session/request_permission") {
		t.Fatal(shown, question)
	}
	_, id, _ := strings.Cut(question, `"id":`)
	id, _, _ = strings.Cut(id, ",")
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":"allow_once"}}}`, id)
	r.client.send(answer)
	r.agent.next()
	if got := w.of(frame.OursToClient); len(got) < 2 || got[0] != shown || got[1] != question {
		t.Errorf("ours: %q", got)
	}
	if got := w.of(frame.ClientToOurs); len(got) != 1 || got[0] != answer {
		t.Errorf("answers: %q", got)
	}
}

func TestObserver_GetsRefusedFrames(t *testing.T) {
	w := &witness{}
	r := newRig(t, func(o *Options) { o.Observer = w })
	r.open("{}")
	twice := `{"id":1,"method":"fs/read_text_file","method":"x"}`
	r.agent.send(`{not json`, twice, `[{"method":"x"}]`, `{"method":"_marker"}`)
	r.client.want(`{"method":"_marker"}`)
	r.client.send(`{nor this`, `{"method":"_marker"}`)
	r.agent.next()
	r.agent.next()
	r.agent.want(`{"method":"_marker"}`)
	if got := w.by(frame.AgentToClient, RefusedName); len(got) != 3 || got[0] != "{not json" || got[1] != twice {
		t.Errorf("the agent's: %q", got)
	}
	if got := w.by(frame.ClientToAgent, RefusedName); len(got) != 1 || got[0] != "{nor this" {
		t.Errorf("the client's: %q", got)
	}
}
