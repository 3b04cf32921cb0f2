package link

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

// watcher records frames by the session that they are assigned to.
type watcher struct {
	mu    sync.Mutex
	lines map[string][]string
}

func (w *watcher) Frame(f frame.Frame) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lines == nil {
		w.lines = map[string][]string{}
	}
	w.lines[string(f.SessionID)] = append(w.lines[string(f.SessionID)], string(f.Line))
}

// of counts the frames of a session whose lines contain a text.
func (w *watcher) of(session, text string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range w.lines[session] {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// openToo opens another session, with its own folder.
func (r *rig) openToo(id string) {
	r.t.Helper()
	r.client.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"session/new","params":{"cwd":"/%s","mcpServers":[]}}`, "n"+id, id))
	r.agent.next()
	r.agent.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{"sessionId":%q}}`, "n"+id, id))
	r.client.next()
}

func TestChild_HasRootsAndPolicyOfParent(t *testing.T) {
	const child = "s-child"
	for _, c := range []struct {
		name    string
		several bool
		// tells is a line with which the agent introduces the child; empty: none.
		tells string
		// call are further members of the child's call.
		call string
		want string // the root; empty: the call is refused
	}{
		{"the only session", false, "", "", "/w"},
		{"several sessions", true, "", "", ""},
		{"a parent that the call names", true, "", `,"parentSessionId":"t"`, "/t"},
		{"a parent in _meta", true, "", `,"_meta":{"parentSessionId":"s"}`, "/w"},
		{"a parent in an agent's own part of _meta", true, "", `,"_meta":{"opencode.ai":{"parentSessionId":"t"}}`, "/t"},
		{"a parent that is not open", true, "", `,"parentSessionId":"u"`, ""},
		{"a subagent that the parent introduces", true,
			`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"t","update":{"sessionUpdate":"subagent_update","subagentSessionId":"s-child","name":"n"}}}`, "", "/t"},
		{"a tool call of the parent that names the child", true,
			`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"t","update":{"sessionUpdate":"tool_call","toolCallId":"1","title":"Task","_meta":{"childSessionId":"s-child"}}}}`, "", "/t"},
		{"an update of the child that names the parent", true,
			`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-child","parentSessionId":"t","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}`, "", "/t"},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := make(chan *acpv1.CallContext, 8)
			decided := make(chan *permissionv1.Action, 8)
			r := newRig(t, func(o *Options) {
				conn := o.Conn
				o.Gate = gate.New(gate.Options{
					Chain:    []gate.Policy{{Name: "permission", Conn: func() (grpc.ClientConnInterface, error) { return conn("") }}},
					Enforced: true, Methods: []string{"fs/*"}, Logger: o.Logger,
				})
			})
			r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
				decided <- a
				return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ALLOW}, nil
			}
			r.handler.read = func(_ context.Context, req *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
				asked <- req.GetContext()
				return &fsv1.ReadTextFileResponse{Content: "x"}, nil
			}
			r.open(`{}`)
			if c.several {
				r.openToo("t")
			}
			if c.tells != "" {
				r.agent.send(c.tells)
				r.client.want(c.tells)
			}
			r.agent.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"sessionId":%q,"path":"/w/f"%s}}`, child, c.call))
			if c.want == "" {
				r.agent.wantError("1", -32602, "is unknown here")
				return
			}
			if got := r.agent.next(); !strings.Contains(got, `"content":"x"`) {
				t.Fatalf("the agent got %s, want the file", got)
			}
			if got := (<-asked).GetRoots(); len(got) != 1 || got[0].GetPath() != c.want {
				t.Errorf("the handler was given the roots %v, want %s", got, c.want)
			}
			if got := (<-decided).GetRoots(); len(got) != 1 || got[0] != c.want {
				t.Errorf("the policy was given the roots %v, want %s", got, c.want)
			}
		})
	}
}

func TestChild_QuestionsAndEventsBelongToParent(t *testing.T) {
	w := &watcher{}
	r := newRig(t, func(o *Options) { o.Observer = w })
	r.handler.decide = func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ASK}, nil
	}
	r.open(`{}`)
	r.client.send(promptS)
	r.agent.want(promptS)
	question := `{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s-child","toolCall":{"toolCallId":"c1","title":"x","kind":"edit","locations":[{"path":"/w/f"}]},"options":[{"optionId":"a","name":"Allow once","kind":"allow_once"},{"optionId":"r","name":"Reject","kind":"reject_once"}]}}`
	r.agent.send(question)
	r.client.want(question) // the client gets the agent's own bytes
	answer := `{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"r"}}}`
	r.client.send(answer)
	r.agent.want(answer)
	idle := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-child","update":{"sessionUpdate":"current_mode_update","currentModeId":"yolo"}}}`
	r.agent.send(idle)
	r.client.want(idle)
	if n := w.of("s", `"s-child"`); n < 2 {
		t.Errorf("%d frames of the child were shown as its parent's", n)
	}
	if n := w.of("s-child", ""); n != 0 {
		t.Errorf("%d frames were shown as a session's that is not known", n)
	}
	cc, err := r.opts.Sessions.Context("s")
	if err != nil || cc.GetMode() != "" {
		t.Errorf("the parent's mode is %q (%v), want its own", cc.GetMode(), err)
	}
}
