// Package gate is where it is decided whether an agent may: at the questions that it asks (door one) and at the calls
// that it makes (door two). It asks the policy, fails closed, keeps acphost's own files from the agent, and counts what
// it saw.
//
// It knows actions and verdicts. It knows neither JSON-RPC nor how an answer reaches anybody.
package gate

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// DecideTimeout is how long a policy may take for one decision. A person's answer has no such limit.
const DecideTimeout = 5 * time.Second

// RuleProtected is the rule that denies acphost's own files, whatever the policy says.
const RuleProtected = "acphost/protected"

// Policy returns the connection to whoever decides, or why there is none.
type Policy func() (grpc.ClientConnInterface, error)

// Options say what a Gate works with.
type Options struct {
	// Policy reaches the permission handler. Nil: none, every question goes to the front.
	Policy Policy
	// Enforced: a policy was configured, so that a question which it does not answer is denied. Otherwise the person
	// at the front is asked, as without a gate.
	Enforced bool
	// Protected are the absolute paths that no agent may touch.
	Protected []string
	Logger    *slog.Logger
}

// Gate decides. Safe for concurrent use.
type Gate struct {
	opts      Options
	protected protectedPaths

	mu       sync.Mutex
	counters supervisorv1.GateCounters
}

// New returns a Gate.
func New(o Options) *Gate {
	return &Gate{
		opts:      o,
		protected: newProtected(o.Protected),
		counters:  supervisorv1.GateCounters{Observed: map[string]uint64{}},
	}
}

// Decision is what is to be done about a question.
type Decision struct {
	Verdict permissionv1.Verdict
	// Rule is the rule that decided; empty if none did.
	Rule string
	// Reason says why, in words for the person and the agent.
	Reason string
}

// Question decides on a permission question of an agent's (door one). Ask means that the front is to be asked. It
// returns within DecideTimeout, or with ctx's error once ctx is done.
func (g *Gate) Question(ctx context.Context, a *permissionv1.Action) (Decision, error) {
	started := time.Now()
	d, err := g.decide(ctx, a)
	if err != nil {
		return d, err
	}
	g.count(d)
	g.opts.Logger.Debug("decided", "door", "request", "session", a.GetSessionId(), "action", a.GetKind(),
		"verdict", verdictName(d.Verdict), "rule", d.Rule, "reason", d.Reason,
		"duration_us", time.Since(started).Microseconds())
	return d, nil
}

func (g *Gate) decide(ctx context.Context, a *permissionv1.Action) (Decision, error) {
	if p := protectedIn(a); p != "" {
		return Decision{Verdict: permissionv1.Verdict_VERDICT_DENY, Rule: RuleProtected, Reason: protectedReason(p)}, nil
	}
	if a.GetKind() == "tool.switch_mode" {
		return Decision{Verdict: permissionv1.Verdict_VERDICT_ASK, Reason: "a change of mode is for a person to answer"}, nil
	}
	if g.opts.Policy == nil {
		return Decision{Verdict: permissionv1.Verdict_VERDICT_ASK, Reason: "questions are routed to the front"}, nil
	}
	res, err := g.ask(ctx, a)
	switch {
	case ctx.Err() != nil:
		return Decision{}, ctx.Err()
	case err != nil && !g.opts.Enforced:
		return Decision{Verdict: permissionv1.Verdict_VERDICT_ASK, Reason: "no policy is set"}, nil
	case err != nil:
		return Decision{
			Verdict: permissionv1.Verdict_VERDICT_DENY,
			Reason:  fmt.Sprintf("the permission policy could not be asked, so nothing is allowed: %s", status.Convert(err).Message()),
		}, nil
	}
	d := Decision{Verdict: res.GetVerdict(), Rule: res.GetRule(), Reason: res.GetReason()}
	switch d.Verdict {
	case permissionv1.Verdict_VERDICT_ALLOW, permissionv1.Verdict_VERDICT_DENY, permissionv1.Verdict_VERDICT_ASK:
	default:
		d.Verdict = permissionv1.Verdict_VERDICT_DENY
		d.Reason = fmt.Sprintf("the permission policy answered no verdict that is known (%d)", res.GetVerdict())
	}
	if d.Reason == "" && d.Rule != "" {
		d.Reason = "rule " + d.Rule
	}
	return d, nil
}

func (g *Gate) ask(ctx context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
	conn, err := g.opts.Policy()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, DecideTimeout)
	defer cancel()
	return permissionv1.NewPermissionServiceClient(conn).Decide(ctx, &permissionv1.DecideRequest{Action: a})
}

// Observe sees a call that an agent makes (door two). Nothing is asked yet: it is counted, and refused only where it
// touches acphost's own files; then the error says so in words for the agent.
func (g *Gate) Observe(a *permissionv1.Action) error {
	g.mu.Lock()
	g.counters.Observed[a.GetKind()]++
	g.mu.Unlock()
	if p := protectedIn(a); p != "" {
		g.mu.Lock()
		g.counters.Protected++
		g.mu.Unlock()
		return fmt.Errorf("denied by rule %s: %s", RuleProtected, protectedReason(p))
	}
	return nil
}

// Seen counts a call of a kind that names neither a path nor a command.
func (g *Gate) Seen(kind string) {
	g.mu.Lock()
	g.counters.Observed[kind]++
	g.mu.Unlock()
}

// Counters returns what was seen and decided so far.
func (g *Gate) Counters() *supervisorv1.GateCounters {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := &supervisorv1.GateCounters{
		Questions: g.counters.GetQuestions(),
		Allowed:   g.counters.GetAllowed(),
		Denied:    g.counters.GetDenied(),
		Forwarded: g.counters.GetForwarded(),
		Protected: g.counters.GetProtected(),
		Observed:  make(map[string]uint64, len(g.counters.GetObserved())),
	}
	for k, v := range g.counters.GetObserved() {
		out.Observed[k] = v
	}
	return out
}

func (g *Gate) count(d Decision) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counters.Questions++
	switch d.Verdict {
	case permissionv1.Verdict_VERDICT_ALLOW:
		g.counters.Allowed++
	case permissionv1.Verdict_VERDICT_ASK:
		g.counters.Forwarded++
	default:
		g.counters.Denied++
		if d.Rule == RuleProtected {
			g.counters.Protected++
		}
	}
}

// Answered tells the policy how a question ended that it wanted asked. It waits for nobody and fails silently: a policy
// need not listen.
func (g *Gate) Answered(ctx context.Context, a *permissionv1.Action, d Decision, outcome, by string) {
	if g.opts.Policy == nil {
		return
	}
	conn, err := g.opts.Policy()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, DecideTimeout)
	defer cancel()
	_, err = permissionv1.NewPermissionServiceClient(conn).Answered(ctx, &permissionv1.AnsweredRequest{
		Action:     a,
		Decision:   &permissionv1.DecideResponse{Verdict: d.Verdict, Rule: d.Rule, Reason: d.Reason},
		Outcome:    outcome,
		AnsweredBy: by,
	})
	if err != nil {
		g.opts.Logger.Debug("the policy does not take answers", "error", err)
	}
}

func verdictName(v permissionv1.Verdict) string {
	switch v {
	case permissionv1.Verdict_VERDICT_ALLOW:
		return "allow"
	case permissionv1.Verdict_VERDICT_ASK:
		return "ask"
	}
	return "deny"
}
