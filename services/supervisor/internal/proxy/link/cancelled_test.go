package link

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/testkit"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

const promptS = `{"jsonrpc":"2.0","id":"turn","method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`

func TestCancelled_LaterCallIsNotAsked(t *testing.T) {
	r := gatedRig(t)
	r.handler.decide = answer(permissionv1.Verdict_VERDICT_ASK)
	r.open(`{}`)
	r.client.send(promptS)
	r.agent.want(promptS)
	cancel := `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}`
	r.client.send(cancel)
	r.agent.want(cancel)
	testkit.Eventually(t, "the turn that was cancelled is known as one", func() bool { return r.opts.Sessions.GivenUp("s") })
	r.agent.send(fmt.Sprintf(writeCall, 1, 1))
	r.agent.wantError("1", -32800, "cancelled")
	r.agent.send(strings.Replace(askedEdit, `"id":7`, `"id":8`, 1))
	if got := r.agent.next(); !strings.Contains(got, `"outcome":"cancelled"`) {
		t.Errorf("a permission request after the turn was cancelled is answered %s", got)
	}
	ended := `{"jsonrpc":"2.0","id":"turn","result":{"stopReason":"cancelled"}}`
	r.agent.send(ended)
	r.client.want(ended)
}

func TestEarlierAnswer_NeedsUnchangedFile(t *testing.T) {
	const question = `{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t","kind":"edit",` +
		`"content":[{"type":"diff","path":"/w/f1","oldText":"old","newText":"x"}]},"options":[{"optionId":"a","name":"Allow","kind":"allow_once"},{"optionId":"r","name":"No","kind":"reject_once"}]}}`
	for name, present := range map[string]string{"the file is as it was": "old", "the file was changed": "old\nand more", "the file was removed": ""} {
		t.Run(name, func(t *testing.T) {
			r := gatedRig(t)
			r.handler.decide = answer(permissionv1.Verdict_VERDICT_ASK)
			var now atomic.Value
			now.Store("old")
			r.handler.read = func(context.Context, *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
				return &fsv1.ReadTextFileResponse{Content: now.Load().(string)}, nil
			}
			wrote := make(chan string, 1)
			r.handler.write = func(_ context.Context, w *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
				wrote <- w.GetContent()
				return &fsv1.WriteTextFileResponse{}, nil
			}
			r.open(`{}`)
			r.agent.send(question)
			r.client.want(question)
			r.client.send(`{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}`)
			r.agent.next()
			now.Store(present)
			r.agent.send(fmt.Sprintf(writeCall, 1, 1))
			if present == "old" {
				r.agent.next()
				if got := <-wrote; got != "x" {
					t.Errorf("wrote %q", got)
				}
				return
			}
			r.client.next() // acphost's own tool call
			if got := parse(t, r.client.next()); got.Method != "session/request_permission" {
				t.Errorf("the client gets %s, want a question", got.Method)
			}
		})
	}
}

func TestAskedWrite_NeedsUnchangedFile(t *testing.T) {
	for name, tt := range map[string]struct{ then, answer string }{
		"the file is as it was":   {"old", `"result"`},
		"the file was changed":    {"old\nand more", "read it again before writing"},
		"the file cannot be read": {"", `"result"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := gatedRig(t)
			r.handler.decide = answer(permissionv1.Verdict_VERDICT_ASK)
			var now atomic.Value
			now.Store("old")
			r.handler.read = func(context.Context, *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
				if tt.then == "" {
					return nil, status.Error(codes.FailedPrecondition, "no UTF-8")
				}
				return &fsv1.ReadTextFileResponse{Content: now.Load().(string)}, nil
			}
			r.handler.write = func(context.Context, *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
				return &fsv1.WriteTextFileResponse{}, nil
			}
			r.open(`{}`)
			r.agent.send(fmt.Sprintf(writeCall, 1, 1))
			call, question := r.client.next(), parse(t, r.client.next())
			if shown := strings.Contains(call, "is not shown, and would be replaced: no UTF-8"); shown != (tt.then == "") || strings.Contains(call, "null") {
				t.Errorf("the client is shown %s", call)
			}
			now.Store(tt.then)
			r.client.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"selected","optionId":"allow_once"}}}`, question.ID))
			if got := r.agent.next(); !strings.Contains(got, tt.answer) {
				t.Errorf("the agent is answered %s, want %s", got, tt.answer)
			}
		})
	}
}

func TestPermissionRequest_EndsWhenCallChanges(t *testing.T) {
	const (
		asked = `{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t","kind":"execute",` +
			`"rawInput":{"command":"git status"}},"options":` + options + `}}`
		update   = `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"t","rawInput":%s}}}`
		rejected = `{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"r"}}}`
	)
	more, another := fmt.Sprintf(update, `{"command":"git status","workdir":"/w"}`), fmt.Sprintf(update, `{"command":"git push"}`)
	t.Run("while it is open", func(t *testing.T) {
		r, d := watchedRig(t)
		r.handler.decide = answer(permissionv1.Verdict_VERDICT_ASK)
		r.open(`{}`)
		r.agent.send(asked, more)
		d.question()
		r.client.want(asked)
		r.client.want(more)
		r.agent.send(another)
		d.want(question.End{Outcome: question.Denied, Option: "r", By: gate.ByAcphost})
		r.agent.want(rejected)
		for _, want := range []string{"$/cancel_request", "the agent changed the action while the question was open", "git push"} {
			if got := r.client.next(); !strings.Contains(got, want) {
				t.Errorf("the client is told %s, and not %s", got, want)
			}
		}
	})
	t.Run("by another request", func(t *testing.T) {
		r, d := watchedRig(t)
		r.handler.decide = answer(permissionv1.Verdict_VERDICT_ASK)
		r.open(`{}`)
		r.agent.send(asked)
		d.question()
		r.client.want(asked)
		second := strings.NewReplacer(`"id":7`, `"id":8`, "git status", "git push").Replace(asked)
		r.agent.send(second)
		r.agent.want(rejected)
	})
	t.Run("while it is decided", func(t *testing.T) {
		r, _ := watchedRig(t)
		r.handler.decide = func(ctx context.Context, _ *permissionv1.Action) (*permissionv1.DecideResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		r.open(`{}`)
		r.agent.send(asked, more, another)
		r.agent.want(rejected)
		r.client.want(more)
		r.client.want(another)
	})
}
