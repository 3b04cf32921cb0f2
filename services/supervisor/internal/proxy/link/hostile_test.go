package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/testkit"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

// asked reads acphost's tool call and question at the client.
func (r *rig) asked() line {
	r.t.Helper()
	if m := parse(r.t, r.client.next()); m.Params.Update.SessionUpdate != "tool_call" {
		r.t.Fatalf("got %+v, want a tool call of ours", m)
	}
	m := parse(r.t, r.client.next())
	if m.Method != "session/request_permission" {
		r.t.Fatalf("got %+v, want a question of ours", m)
	}
	return m
}

// shows reads the next states of acphost's tool call.
func (r *rig) shows(states ...string) {
	r.t.Helper()
	for _, want := range states {
		if m := parse(r.t, r.client.next()); m.Params.Update.Status != want {
			r.t.Fatalf("the client is shown %+v, want %s", m, want)
		}
	}
}

func TestCall_ReusedIDGetsOwnAnswer(t *testing.T) {
	r := gatedRig(t)
	before, after := &agentCall{id: []byte("1"), method: "a"}, &agentCall{id: []byte("1"), method: "b"}
	r.agentCalls.Add(before.id, before)
	r.answerError(before, cancelled(before))
	r.agent.wantError("1", -32800, "a: cancelled")
	if !r.agentCalls.Add(after.id, after) {
		t.Fatal("the id is not free")
	}
	r.answerError(before, &jsonrpc.Error{Code: -1}) // the goroutine that processes the call notices late
	if r.claim(before) {
		t.Error("a call was answered twice")
	}
	r.answerError(after, cancelled(after))
	r.agent.wantError("1", -32800, "b: cancelled")
}

func TestOwnCall_EndsWithClientCall(t *testing.T) {
	for answer, want := range map[string]string{
		`{"id":1,"result":{}}`:                          "completed",
		`{"id":1,"error":{"code":-32000,"message":""}}`: "failed",
		`{"id":1,"result":{},"result":{}}`:              "failed",
	} {
		t.Run(answer, func(t *testing.T) {
			r := gatedRig(t)
			r.open(`{}`)
			call := `{"id":1,"method":"_x/y","params":{"sessionId":"s"}}`
			r.agent.send(call)
			r.client.send(choose(r.asked().ID, acp.AllowOnce))
			r.shows("in_progress")
			r.client.want(call)
			r.client.send(answer)
			r.shows(want)
			if m := parse(t, r.agent.next()); string(m.ID) != "1" {
				t.Errorf("the agent was answered %+v", m)
			}
		})
	}
}

func TestOwnCall_EndsWithAbandonedCall(t *testing.T) {
	r := gatedRig(t)
	r.open(`{}`)
	r.agent.send(fmt.Sprintf(writeCall, 1, 1))
	asked := r.asked()
	c, ok := r.agentCalls.Get([]byte("1"))
	if !ok {
		t.Fatal("the call is not there")
	}
	c.mu.Lock()
	c.given = true // it is given up at the moment of the answer
	c.mu.Unlock()
	r.client.send(choose(asked.ID, acp.AllowOnce))
	r.shows("in_progress", "failed")
}

func TestOwnCall_EndsWithWithdrawnQuestion(t *testing.T) {
	r := gatedRig(t)
	r.open(`{}`)
	r.agent.send(fmt.Sprintf(writeCall, 1, 1))
	asked := r.asked()
	if q, open := r.own.Get(asked.ID); !open || !q.Finish(question.Ending{Cause: question.SomebodyAnswers, By: "somebody", Option: "unheard of"}) {
		t.Fatal("the question is not open")
	}
	if m := parse(t, r.client.next()); m.Method != "$/cancel_request" {
		t.Errorf("the client was told %+v", m)
	}
	r.agent.send(`{"method":"$/cancel_request","params":{"requestId":1}}`)
	r.agent.wantError("1", -32800, "")
	r.shows("failed")
}

func TestAnswer_UnusableAnswerIsRecorded(t *testing.T) {
	for name, line := range map[string]string{
		"ambiguous": `{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"a"}},"result":{}}`,
		"too long":  `{"id":7,"result":"` + strings.Repeat("x", 8192) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.Limits.MaxMessage = 4096 })
			r.open(`{}`)
			r.agent.send(askedEdit)
			r.client.want(askedEdit)
			r.client.send(line)
			r.agent.wantError("7", -32603, "answer")
			if n := r.opts.Gate.Counters().GetForwarded(); n != 1 {
				t.Errorf("%d questions were recorded, want 1", n)
			}
		})
	}
}

func TestCall_Version1MethodsAreJudgedInVersion2(t *testing.T) {
	r := gatedRig(t)
	seen := make(chan *permissionv1.Action, 1)
	r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		seen <- a
		return &permissionv1.DecideResponse{Verdict: gate.Deny, Reason: "no"}, nil
	}
	r.agent.send(fmt.Sprintf(writeCall, 0, 1))
	r.agent.wantError("0", -32600, "before initialize")
	r.client.send(`{"id":"i","method":"initialize","params":{"protocolVersion":2,"clientCapabilities":{}}}`)
	r.agent.next()
	r.agent.send(`{"id":"i","result":{"protocolVersion":2}}`)
	r.client.next()
	r.client.send(`{"id":"n","method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`)
	r.agent.next()
	r.agent.send(`{"id":"n","result":{"sessionId":"s"}}`)
	r.client.next()
	r.agent.send(fmt.Sprintf(writeCall, 1, 1))
	r.agent.wantError("1", -32603, "denied: write /w/f1 (where it leads is not known): no")
	if a := <-seen; a.GetKind() != "fs.write" || len(a.GetPaths()) != 1 {
		t.Errorf("the policy saw %v", a)
	}
}

func TestCall_SentAsNotificationIsDropped(t *testing.T) {
	r := gatedRig(t)
	r.open(`{}`)
	r.agent.send(
		`{"method":"fs/write_text_file","params":{"sessionId":"s","path":"/w/f","content":"x"}}`,
		`{"method":"terminal/create","params":{"sessionId":"s","command":"x"}}`,
		`{"method":"session/request_permission","params":{"sessionId":"s","toolCall":{},"options":[]}}`,
		`{"method":"_x/y","params":{"sessionId":"s"}}`,
		`{"method":"_z/y","params":{"sessionId":"s"}}`)
	r.client.want(`{"method":"_z/y","params":{"sessionId":"s"}}`)
}

func TestAnswer_AmbiguousAnswerAllowsNoCall(t *testing.T) {
	twice := `[{"optionId":"x","kind":"reject_once","name":"No"},{"optionId":"x","kind":"allow_once","name":"No"}]`
	for _, tt := range []struct{ name, options, answer, want, why string }{
		{"one id for yes and no", twice, `{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"x"}}}`, "reject_once", ""},
		{"cancelled, with an option", options, `{"id":7,"result":{"outcome":{"outcome":"cancelled","optionId":"a"}}}`, "cancelled", "without an option"},
		{"an option that was not offered", options, `{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"z"}}}`, "cancelled", "not offered"},
		{"no option", options, `{"id":7,"result":{"outcome":{"outcome":"selected"}}}`, "cancelled", "no option"},
		{"nothing", options, `{"id":7,"result":null}`, "cancelled", "no object"},
		{"neither a result nor an error", options, `{"id":7}`, "cancelled", "neither"},
		{"a result and an error", options, `{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"a"}},"error":{"code":1,"message":"no"}}`, "cancelled", "a result and an error"},
		{"no and yes", options, `{"id":7,"result":{"outcome":{"outcome":"cancelled"},"outcome":{"outcome":"selected","optionId":"a"}}}`, "cancelled", "twice"},
		{"two options", options, `{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"r","optionId":"a"}}}`, "cancelled", "twice"},
		{"two options that differ in case", options, `{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"a","optionID":"r"}}}`, "cancelled", "only in case"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := gatedRig(t)
			r.handler.answered = make(chan *permissionv1.AnsweredRequest, 1)
			r.open(`{}`)
			r.agent.send(toolEdit, strings.Replace(askedEdit, options, tt.options, 1))
			r.client.next()
			r.client.next()
			r.client.send(tt.answer)
			if tt.why != "" { // no user answered
				r.agent.wantError("7", -32603, tt.why)
				return
			}
			r.agent.want(tt.answer)
			if got := (<-r.handler.answered).GetOutcome(); got != tt.want {
				t.Errorf("it was taken for %s, want %s", got, tt.want)
			}
		})
	}
}

func TestAnswer_ChangedToolCallAllowsNoCall(t *testing.T) {
	write := `{"id":8,"method":"fs/write_text_file","params":{"sessionId":"s","path":"/w/f.txt","content":"x"}}`
	for name, tt := range map[string]struct {
		update string
		asked  bool
	}{
		"only its status":    {`"status":"in_progress"`, false},
		"the same once more": {`"title":"Edit"`, false},
		"its title":          {`"title":"Nothing to see"`, true},
		"its content":        {`"content":[]`, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := gatedRig(t)
			r.handler.read = func(context.Context, *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
				return nil, status.Error(codes.NotFound, "not there yet")
			}
			r.open(`{}`)
			update := `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"t",` + tt.update + `}}}`
			r.agent.send(toolEdit, askedEdit)
			r.client.want(toolEdit)
			r.client.want(askedEdit)
			r.agent.send(update)
			r.client.want(update)
			r.client.send(`{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}`)
			r.agent.next()
			r.agent.send(write)
			if tt.asked {
				r.client.send(choose(r.asked().ID, acp.RejectOnce))
				r.agent.wantError("8", -32603, "the user rejected this")
				return
			}
			if m := parse(t, r.agent.next()); m.Error != nil {
				t.Errorf("the call was answered %+v", m)
			}
		})
	}
}

func TestSessionClose_WithdrawsQuestions(t *testing.T) {
	r := gatedRig(t)
	r.open(`{}`)
	r.agent.send(fmt.Sprintf(writeCall, 1, 1))
	asked := r.asked()
	r.client.send(`{"id":"c","method":"session/close","params":{"sessionId":"s"}}`)
	r.agent.next()
	r.agent.send(`{"id":"c","result":{}}`)
	r.agent.wantError("1", -32800, "")
	var withdrawn, failed, closed bool
	for range 3 {
		m := parse(t, r.client.next())
		withdrawn = withdrawn || m.Method == "$/cancel_request" && string(m.Params.RequestID) == string(asked.ID)
		failed = failed || m.Params.Update.Status == "failed"
		closed = closed || string(m.ID) == `"c"`
	}
	if !withdrawn || !failed || !closed {
		t.Errorf("withdrawn %v, shown as failed %v, close answered %v", withdrawn, failed, closed)
	}
}

func TestAnswer_ReplacedSessionAllowsNoCall(t *testing.T) {
	for name, request := range map[string]string{
		"its folders changed": `{"id":"n2","method":"session/load","params":{"sessionId":"s","cwd":"/elsewhere","mcpServers":[]}}`,
		"it was replaced":     `{"id":"n2","method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := gatedRig(t)
			r.handler.write = func(context.Context, *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
				t.Error("the handler was called")
				return &fsv1.WriteTextFileResponse{}, nil
			}
			r.open(`{}`)
			r.agent.send(fmt.Sprintf(writeCall, 1, 1))
			asked := r.asked()
			r.client.send(request)
			r.agent.next()
			r.agent.send(`{"id":"n2","result":{"sessionId":"s"}}`)
			r.client.next()
			r.client.send(choose(asked.ID, acp.AllowOnce))
			r.agent.wantError("1", -32603, "ask again")
			r.shows("in_progress", "failed")
		})
	}
}

func TestOwnQuestion_ClientAnswers(t *testing.T) {
	for name, tt := range map[string]struct{ answer, want string }{
		"an error":                       {`"error":{"code":-32601,"message":"Method not found: ENOENT"}`, "has told the user why"},
		"an option that was not offered": {`"result":{"outcome":{"outcome":"selected","optionId":"allow_always"}}`, "not offered"},
	} {
		t.Run(name, func(t *testing.T) {
			r := gatedRig(t)
			r.open(`{}`)
			r.agent.send(fmt.Sprintf(writeCall, 1, 1))
			asked := r.asked()
			if _, err := r.Answer(asked.ID, question.Answer{Option: acp.AllowAlways}, "somebody"); err == nil || errors.Is(err, question.ErrNotOpen) {
				t.Errorf("an answer that is not offered: %v", err)
			}
			r.client.send(`{"id":` + string(asked.ID) + `,` + tt.answer + `}`)
			m := parse(t, r.agent.next())
			if m.Error == nil || m.Error.Code != -32603 || !strings.Contains(m.Error.Message, tt.want) || strings.Contains(m.Error.Message, "ENOENT") {
				t.Errorf("the agent was answered %+v", m.Error)
			}
		})
	}
}

func TestDeny_NeverReadsLikeMissingFile(t *testing.T) {
	r := gatedRig(t)
	r.handler.decide = func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: gate.Deny, Rule: "tickets", Reason: "the ticket was not found"}, nil
	}
	r.open(`{}`)
	for name, want := range map[string]string{
		"f":         "fs/write_text_file: denied: write /w/f (where it leads is not known): acphost has told the user why (rule tickets); if this is needed, ask the user to do it or to allow it",
		"not found": "fs/write_text_file: denied: acphost has told the user why (rule tickets); if this is needed, ask the user to do it or to allow it",
		"ENOENT":    "fs/write_text_file: denied: acphost has told the user why (rule tickets); if this is needed, ask the user to do it or to allow it",
	} {
		r.agent.send(`{"id":"` + name + `","method":"fs/write_text_file","params":{"sessionId":"s","path":"/w/` + name + `","content":"x"}}`)
		if m := parse(t, r.agent.next()); m.Error == nil || m.Error.Code != -32603 || m.Error.Message != want {
			t.Errorf("%s: the agent was answered %+v, want %q", name, m.Error, want)
		}
		if told := r.client.next(); !strings.Contains(told, "the ticket was not found (rule tickets)") || !strings.Contains(told, "/w/"+name) {
			t.Errorf("the person is told %s", told)
		}
	}
}

func TestOwnCall_ShowsCommandUnchanged(t *testing.T) {
	got := shownCommand(&permissionv1.Command{Text: "echo \x1b[8m; rm\u202e x\r\n```", Cwd: "/w\n# in /safe"})
	want := "echo \\u{1b}[8m; rm\\u{202e} x\\r\n`\u200b``\n# in /w\\n# in /safe"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestOrder_AllowedCallsKeepOrder(t *testing.T) {
	for name, call := range map[string]string{
		"a question":                 askedEdit,
		"a call for the front":       `{"id":1,"method":"_x/y","params":{"sessionId":"s"}}`,
		"a call that is asked about": fmt.Sprintf(writeCall, 1, 1),
	} {
		t.Run(name, func(t *testing.T) {
			r := gatedRig(t)
			r.open(`{}`)
			update := `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk"}}}`
			r.agent.send(update + "\n" + call) // in one write
			r.client.want(update)
			if m := parse(t, r.client.next()); m.Method == "" {
				t.Errorf("then came %+v", m)
			}
		})
	}
}

func TestQuestion_SendErrorEndsOnce(t *testing.T) {
	r := gatedRig(t)
	r.handler.answered = make(chan *permissionv1.AnsweredRequest, 1)
	r.open(`{}`)
	if err := r.client.raw.Close(); err != nil { // the client stops reading
		t.Fatal(err)
	}
	r.agent.send(askedEdit)
	select {
	case reason := <-r.ended:
		if reason != ClientGone {
			t.Errorf("the link ended for reason %v", reason)
		}
	case <-testkit.After():
		t.Fatal("the link goes on")
	}
	if n := r.opts.Gate.Counters().GetForwarded(); n != 1 {
		t.Errorf("the question was recorded %d times, want once", n)
	}
}

func TestOwnQuestion_UnreadableAnswerRefusesCall(t *testing.T) {
	r := gatedRig(t)
	r.open(`{}`)
	r.agent.send(fmt.Sprintf(writeCall, 1, 1))
	asked := r.asked()
	r.client.send(`{"id":` + string(asked.ID) + `,"result":{"outcome":{"outcome":"selected","optionId":"allow_once"}},"result":{}}`)
	r.agent.wantError("1", -32603, "the client could not ask the user")
	r.shows("failed")
}

func TestAnswer_OnlyClientCountsAsClient(t *testing.T) {
	r, d := watchedRig(t)
	r.open(`{}`)
	r.agent.send(askedEdit)
	if _, err := r.Answer(d.question().ID, question.Answer{Option: "a"}, gate.ByClient); err != nil {
		t.Fatal(err)
	}
	r.agent.want(answerYes)
	r.client.want(askedEdit)
	r.client.want(cancel7)
}

func TestLink_RefusesMessageWithOnlyID(t *testing.T) {
	r := newRig(t)
	r.open(`{}`)
	r.client.send(`{"jsonrpc":"2.0","id":99}`)
	r.client.wantError("null", -32600, "the id 99 alone")
	r.agent.send(`{"jsonrpc":"2.0","id":5,"method":"_x/y","params":{"sessionId":"s"}}`)
	r.client.next()
	r.client.send(`{"jsonrpc":"2.0","id":5}`) // an answer without a value, as JavaScript leaves out what is undefined
	r.agent.want(`{"jsonrpc":"2.0","id":5}`)
}
