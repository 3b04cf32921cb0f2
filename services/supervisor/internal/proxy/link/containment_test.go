package link

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/reason"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/question"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/containment"
)

func TestContainment_LimitsNoticesOfTurn(t *testing.T) {
	r := newRig(t, contained(&containment.Sandbox{}, containment.Proxy{}))
	r.handler.decide = func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_DENY, Rule: "no"}, nil
	}
	r.open(`{}`)
	const maxNotices = 20 // of package containment
	const more = "More of what the agent does in this turn is denied"
	for turn := range 2 {
		prompt := strings.Replace(promptS, `"turn"`, fmt.Sprint(turn), 1)
		r.client.send(prompt)
		r.agent.want(prompt)
		for i := range maxNotices + 5 {
			r.decider.Judge(t.Context(), decisions.Asked{Program: "agent", Event: sandbox.Event{Operation: sandbox.Write, PID: os.Getpid(), Path: fmt.Sprintf("/x/%d", i)}})
		}
		for i := range maxNotices {
			if got := r.client.next(); !strings.Contains(got, deniedTitle+": write /x/"+fmt.Sprint(i)+" ") {
				t.Fatalf("got %s", got)
			}
		}
		if got := r.client.next(); !strings.Contains(got, more) {
			t.Errorf("got %s, want %q", got, more)
		}
		ended := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"end_turn"}}`, turn)
		r.agent.send(ended)
		r.client.want(ended) // and no further notice was sent
	}
}

// An agent may not start because the sandbox refuses one of its files. No session shows a notice of that.
func TestContainment_NamesRefusalsOfAgentThatDoesNotStart(t *testing.T) {
	r := newRig(t, contained(&containment.Sandbox{}, containment.Proxy{}))
	r.client.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`)
	r.agent.next()
	for i := range 5 {
		e := sandbox.Event{Operation: sandbox.Write, PID: os.Getpid(), Path: fmt.Sprintf("/home/.state/%d", i)}
		r.decider.Judge(t.Context(), decisions.Asked{Program: "agent", Event: e})
	}
	_ = r.agent.in.Close()
	got := r.client.next()
	for _, want := range []string{
		"; the sandbox refused: write /home/.state/0 ", "write /home/.state/2 ", "list its folder in sandbox.own",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %q", got, want)
		}
	}
	if strings.Contains(got, "/home/.state/3") {
		t.Errorf("got %s, want the first refusals only", got)
	}
}

// TestContainment_AsksOnceInTurn tries an action of which every question ends without a person. The question of the
// turn is the first try's.
func TestContainment_AsksOnceInTurn(t *testing.T) {
	var denied atomic.Int32
	r, d := watchedRig(t, func(o *Options) {
		o.Attended, o.Unattended = func() bool { return false }, time.Millisecond
		conn := o.Conn
		o.Gate = gate.New(gate.Options{
			Chain:    []gate.Policy{{Name: "permission", Conn: func() (grpc.ClientConnInterface, error) { return conn("") }}},
			Enforced: true, Logger: o.Logger, Denied: func(*supervisorv1.AuditRecord) { denied.Add(1) },
		})
	}, contained(&containment.Sandbox{}, containment.Proxy{}))
	r.open(`{}`)
	try := func(path string) string {
		e := sandbox.Event{Operation: sandbox.Write, PID: os.Getpid(), Path: path}
		answer := r.decider.Judge(t.Context(), decisions.Asked{Program: "agent", Event: e})
		if answer.Allowed {
			t.Fatalf("%s was allowed", path)
		}
		return answer.Why
	}
	for turn := range 2 {
		prompt := strings.Replace(promptS, `"turn"`, fmt.Sprint(turn), 1)
		r.client.send(prompt)
		r.agent.want(prompt)
		for i, path := range similar {
			before := denied.Load()
			try(path)
			if q := d.question(); !strings.Contains(string(q.Params), path) {
				t.Fatalf("turn %d, try %d: the question is %s, want one about %s", turn, i, q.Params, path)
			}
			d.want(question.End{Outcome: question.Expired, Option: acp.RejectOnce, By: "nobody"})
			testkit.Eventually(t, "the end of the question holds for further tries", func() bool {
				return strings.Contains(try(path), reason.NoUser.String())
			})
			for range 100 {
				try(path)
			}
			if got := denied.Load() - before; got != 2 {
				t.Errorf("turn %d, try %d: got %d records of denials, want the question's and one of further tries", turn, i, got)
			}
		}
		ended := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"end_turn"}}`, turn)
		r.agent.send(ended)
		for r.client.next() != ended {
		}
	}
}

// TestContainment_AsksAboutSocketsThatRuleNames: the handler's answer "ask" without a rule that names the socket allows
// the connection.
func TestContainment_AsksAboutSocketsThatRuleNames(t *testing.T) {
	r, d := watchedRig(t, contained(&containment.Sandbox{Own: []string{"/own"}}, containment.Proxy{}))
	r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		path := a.GetPaths()[0].GetPath()
		named := !strings.Contains(path, "unnamed")
		return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ASK, Rule: "sockets", NamesPaths: named}, nil
	}
	r.open(`{}`)
	r.client.send(promptS)
	r.agent.want(promptS)
	connect := func(path string) decisions.Answer {
		return r.decider.Judge(t.Context(), decisions.Asked{Program: "agent", Event: sandbox.Event{
			Operation: sandbox.Connect, PID: os.Getpid(), Path: path, Address: sandbox.Address{Network: "unix"}}})
	}
	for _, path := range []string{"/run/unnamed", "/own/named"} {
		if got := connect(path); !got.Allowed {
			t.Errorf("%s: refused (%s), want a connection without a question", path, got.Why)
		}
	}
	for path, option := range map[string]string{"/run/a": acp.AllowOnce, "/run/b": acp.RejectOnce} {
		if got := connect(path); got.Allowed {
			t.Fatalf("%s: connected, want a question first", path)
		}
		q := d.question()
		if !strings.Contains(string(q.Params), path) {
			t.Fatalf("the question is %s, want one about %s", q.Params, path)
		}
		if _, err := r.Answer(q.ID, question.Answer{Option: option}, "cli"); err != nil {
			t.Fatal(err)
		}
		outcome := question.Denied
		if option == acp.AllowOnce {
			outcome = question.Allowed
		}
		d.want(question.End{Outcome: outcome, Option: option, By: "cli"})
		for range 2 {
			if got := connect(path); got.Allowed != (option == acp.AllowOnce) {
				t.Errorf("%s after %s: allowed %t (%s)", path, option, got.Allowed, got.Why)
			}
		}
	}
}
