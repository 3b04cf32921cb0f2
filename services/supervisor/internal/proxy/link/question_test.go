package link

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/dialect"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/grant"
)

const (
	options   = `[{"optionId":"aa","kind":"allow_always","name":"Always allow"},{"optionId":"a","kind":"allow_once","name":"Allow once"},{"optionId":"rr","kind":"reject_always","name":"Always reject"},{"optionId":"r","kind":"reject_once","name":"Reject"}]`
	askedEdit = `{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":` + options + `}}`
	toolEdit  = `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t","title":"Edit","kind":"other","content":[{"type":"diff","path":"f.txt","newText":"x"}]}}}`
)

func answer(v permissionv1.Verdict) func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
	return func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: v, Rule: "the-rule", Reason: "because"}, nil
	}
}

func TestPermissionRequest_IsAnsweredByPolicy(t *testing.T) {
	tests := []struct {
		name    string
		verdict permissionv1.Verdict
		options string
		want    string
	}{
		{"allow takes allow_once", permissionv1.Verdict_VERDICT_ALLOW, options, `{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}`},
		{"deny takes reject_once", permissionv1.Verdict_VERDICT_DENY, options, `{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"r"}}}`},
		{"deny takes reject_always where there is no other", permissionv1.Verdict_VERDICT_DENY, `[{"optionId":"rr","kind":"reject_always"}]`, `{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"rr"}}}`},
		{"deny without any such option is an error", permissionv1.Verdict_VERDICT_DENY, `[{"optionId":"a","kind":"allow_once"}]`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"session/request_permission: denied: do something that is not named (not understood in full): because (rule the-rule); if this is needed, ask the user to do it or to allow it"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.handler.decide = answer(tt.verdict)
			r.open(`{}`)
			r.agent.send(strings.Replace(askedEdit, options, tt.options, 1))
			r.agent.want(tt.want)
		})
	}
}

func TestPermissionRequest_MergesEarlierToolCall(t *testing.T) {
	r := newRig(t)
	seen := make(chan *permissionv1.Action, 1)
	r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		seen <- a
		return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ALLOW}, nil
	}
	r.open(`{}`)
	r.agent.send(toolEdit, askedEdit)
	r.client.want(toolEdit)
	r.agent.next()
	a := <-seen
	if a.GetKind() != "tool.edit" || len(a.GetPaths()) != 1 || a.GetPaths()[0].GetPath() != "/w/f.txt" ||
		a.GetPaths()[0].GetAccess() != permissionv1.Access_ACCESS_WRITE || a.GetTitle() != "Edit" || a.GetUnparsed() != "" {
		t.Errorf("the policy saw %v", a)
	}
}

func TestPermissionRequest_AskForwardsUnchangedAndNotifiesPolicy(t *testing.T) {
	r := newRig(t)
	r.handler.answered = make(chan *permissionv1.AnsweredRequest, 1)
	r.open(`{}`)
	odd := strings.Replace(askedEdit, `"params":{`, `"params" : { "_meta":{"n":1.50}, `, 1)
	r.agent.send(odd)
	r.client.want(odd)
	r.client.send(`{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"aa"}}}`)
	r.agent.want(`{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"aa"}}}`)
	if got := <-r.handler.answered; got.GetOutcome() != "allow_always" || got.GetAnsweredBy() != "front" {
		t.Errorf("the policy was told %v", got)
	}
}

func TestPermissionRequest_AsksWithoutAllowOnce(t *testing.T) {
	r := newRig(t)
	r.handler.decide = answer(permissionv1.Verdict_VERDICT_ALLOW)
	r.open(`{}`)
	line := strings.Replace(askedEdit, options, `[{"optionId":"aa","kind":"allow_always","name":"Always allow"}]`, 1)
	r.agent.send(line)
	r.client.want(line)
}

func TestPermissionRequest_UnavailablePolicyRejects(t *testing.T) {
	r := newRig(t)
	r.open(`{}`)
	r.down.Store(true)
	r.agent.send(askedEdit)
	r.agent.want(`{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"r"}}}`)
}

func TestPermissionRequest_RefusesAmbiguousParams(t *testing.T) {
	r := newRig(t)
	r.handler.decide = func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		t.Error("the policy was asked")
		return nil, errors.New("no")
	}
	r.open(`{}`)
	for _, params := range []string{
		`{"sessionId":"s","toolCall":{"toolCallId":"t"},"ToolCall":{"toolCallId":"u"},"options":[]}`,
		`{"sessionId":"s","toolCall":{"toolCallId":"t","rawInput":{"command":"ls"},"rawinput":{}},"options":[]}`,
	} {
		r.agent.send(`{"id":1,"method":"session/request_permission","params":` + params + `}`)
		r.agent.wantError("1", -32600, "")
	}
}

func TestCancelTurn_EndsDecision(t *testing.T) {
	r := newRig(t)
	asked := make(chan struct{})
	r.handler.decide = func(ctx context.Context, _ *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		close(asked)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r.open(`{}`)
	r.agent.send(askedEdit)
	<-asked
	r.client.send(`{"method":"session/cancel","params":{"sessionId":"s"}}`)
	got := []string{r.agent.next(), r.agent.next()}
	want := `{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"cancelled"}}}`
	if got[0] != want && got[1] != want {
		t.Errorf("got %q, want one of them %s", got, want)
	}
}

func TestCancelTurn_AnswersAfterGrace(t *testing.T) {
	r := newRig(t)
	r.open(`{}`)
	r.agent.send(askedEdit)
	r.client.want(askedEdit)
	r.client.send(`{"method":"session/cancel","params":{"sessionId":"s"}}`)
	started := time.Now()
	r.agent.want(`{"method":"session/cancel","params":{"sessionId":"s"}}`)
	r.agent.want(`{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"cancelled"}}}`)
	if d := time.Since(started); d < cancelGrace-100*time.Millisecond {
		t.Errorf("the question was answered after %v, before the client had its %v", d, cancelGrace)
	}
	r.client.send(`{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}`, `{"method":"_marker"}`)
	r.agent.want(`{"method":"_marker"}`) // the late answer is dropped
}

func TestPermissionRequest_ChangedFolderEndsQuestion(t *testing.T) {
	const report = `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"t","rawInput":{"command":"ls","cwd":%q}}}}`
	r := newRig(t, func(o *Options) {
		o.Dialect, o.ReportSoon = &dialect.Dialect{Readings: []dialect.Reading{dialect.Located}}, time.Hour
	})
	ask := `{"id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t","kind":"execute","title":"ls","rawInput":{"command":"ls"}},"options":` + options + `}}`
	r.open(`{}`)
	r.agent.send(ask, fmt.Sprintf(report, "/w"))
	r.client.want(ask)
	r.client.want(fmt.Sprintf(report, "/w"))
	r.agent.send(fmt.Sprintf(report, "/etc"))
	r.agent.want(`{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"r"}}}`)
}

// OpenCode reports where a command runs just after its request.
func TestPermissionRequest_WaitsForReport(t *testing.T) {
	const (
		ask    = `{"id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t","kind":"execute","title":"ls","rawInput":{"command":"ls"}},"options":` + options + `}}`
		report = `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"t","rawInput":{"command":%q,"cwd":"/w/sub"}}}}`
	)
	for _, tt := range []struct {
		name          string
		agent         dialect.Dialect
		reported      string
		wait          time.Duration
		cwd, unparsed string
	}{
		{"the report says where", dialect.Dialect{Readings: []dialect.Reading{dialect.Located}}, "ls", time.Hour, "/w/sub", ""},
		{"no report comes", dialect.Dialect{Readings: []dialect.Reading{dialect.Located}}, "", time.Millisecond, "", "in which directory"},
		{"another agent's question is decided as it is", dialect.Dialect{}, "", time.Hour, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.Dialect, o.ReportSoon = &tt.agent, tt.wait })
			seen := make(chan *permissionv1.Action, 1)
			r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
				if !a.GetDone() {
					seen <- a
				}
				return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ALLOW}, nil
			}
			r.open(`{}`)
			r.agent.send(ask)
			if tt.reported != "" {
				r.agent.send(fmt.Sprintf(report, tt.reported))
			}
			a := <-seen
			if a.GetCommand().GetCwd() != tt.cwd || !strings.Contains(a.GetUnparsed(), tt.unparsed) || tt.unparsed == "" && a.GetUnparsed() != "" {
				t.Errorf("the command runs in %q, unparsed %q; want %q, %q", a.GetCommand().GetCwd(), a.GetUnparsed(), tt.cwd, tt.unparsed)
			}
			r.agent.want(`{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}`)
		})
	}
}

// TestPermissionRequest_JudgesContentChunks: a client of ACP v2 shows each item that was added to the tool call.
func TestPermissionRequest_JudgesContentChunks(t *testing.T) {
	r := policyRig(t, permissionv1.Verdict_VERDICT_ALLOW, false)
	judged := make(chan *permissionv1.Action, 1)
	r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		judged <- a
		return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_DENY}, nil
	}
	update := `{"method":"session/update","params":{"sessionId":"s","update":{"toolCallId":"t",%s}}}`
	for _, members := range []string{
		`"sessionUpdate":"tool_call_update","kind":"edit","content":[{"type":"diff","changes":[{"operation":"modify","path":"/w/a"}]}]`,
		`"sessionUpdate":"tool_call_content_chunk","content":{"type":"diff","changes":[{"operation":"add","path":"/w/.env"}]}`,
	} {
		line := fmt.Sprintf(update, members)
		r.agent.send(line)
		r.client.want(line)
	}
	r.agent.send(`{"id":7,"method":"session/request_permission","params":{"sessionId":"s","title":"Edit?","subject":{"type":"tool_call","toolCall":{"toolCallId":"t"}},"options":[{"optionId":"a","kind":"allow_once"},{"optionId":"r","kind":"reject_once"}]}}`)
	a := <-judged
	var paths []string
	for _, p := range a.GetPaths() {
		paths = append(paths, p.GetPath())
	}
	if a.GetKind() != "tool.edit" || a.GetUnparsed() != "" || !slices.Equal(paths, []string{"/w/a", "/w/.env"}) {
		t.Errorf("judged is %v", a)
	}
}

// OpenCode repeats the report of a command, with its folder, just after its request. The answer still counts for that command: it is
// remembered, and the command is not reported as unasked.
func TestPermissionRequest_RepeatedReportKeepsAnswer(t *testing.T) {
	const (
		ask    = `{"id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t","kind":"execute","title":"make","rawInput":{"command":"make"}},"options":` + options + `}}`
		update = `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"t",%s}}}`
	)
	for name, tt := range map[string]struct {
		then   string // the report while the person reads
		grants int
	}{
		"the same":           {`"status":"in_progress"`, 1},
		"a beginning of it":  {`"rawInput":{"command":"mak","cwd":"/w"}`, 0},
		"with another title": {`"title":"ls"`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			grants, err := grant.Open(grant.Options{})
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, func(o *Options) {
				conn := o.Conn
				o.Gate = gate.New(gate.Options{
					Chain:    []gate.Policy{{Name: "permission", Conn: func() (grpc.ClientConnInterface, error) { return conn("permission") }}},
					Enforced: true, Grants: grants, Logger: o.Logger,
				})
				o.Dialect, o.ReportSoon = &dialect.Dialect{Readings: []dialect.Reading{dialect.Located}}, time.Hour
			})
			r.handler.decide = func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
				return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ASK, Grantable: true}, nil
			}
			r.open(`{}`)
			report, then := fmt.Sprintf(update, `"rawInput":{"command":"make","description":"Build.","cwd":"/w"}`), fmt.Sprintf(update, tt.then)
			r.agent.send(ask, report)
			r.client.want(ask)
			r.client.want(report)
			r.agent.send(then)
			r.client.want(then)
			r.client.send(`{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"aa"}}}`)
			r.agent.want(`{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"aa"}}}`)
			if got := len(grants.List()); got != tt.grants {
				t.Errorf("%d grants are remembered, want %d", got, tt.grants)
			}
		})
	}
}
