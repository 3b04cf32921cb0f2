package gate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/reason"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// DecideTimeout limits the time of a policy for one decision. A person's answer has no such limit.
const DecideTimeout = 5 * time.Second

// maxReason limits the bytes of a policy's reason, and of its detail, that are passed on.
const maxReason = 4096

// Policy is a policy handler of the Gate.
type Policy struct {
	// Name is the handler's name, for errors.
	Name string
	// Conn returns a connection to the handler, or at once the error why there is none.
	Conn func() (grpc.ClientConnInterface, error)
	// Timeout limits the time for one decision; DecideTimeout if zero or longer than that.
	Timeout time.Duration
	// Plugin, if set, returns the name and version of the policy: "permd 0.1.0".
	Plugin func() string
	// Doubt, if set, returns the reason why the policy's last answer is not reliable; empty: it is. A person is then asked about actions
	// that the policy allows.
	Doubt func() string

	answers *heldAnswers // answers that also cover further actions; nil: answers are not reused
}

// Keeper is a connection that keeps the state of a policy: the rule files that it has read. A policy that is restarted gets the same state.
type Keeper interface {
	// Kept returns the current state; nil: none. The caller must not change it.
	Kept() []byte
	// Keep replaces the state.
	Keep(what []byte)
}

// policyAnswer is the joint answer of the policies.
type policyAnswer struct {
	*permissionv1.DecideResponse
	plugin string
	reused bool                // all answers were given about an earlier action
	holds  *permissionv1.Reuse // other actions that the answer covers; nil: none
}

// ask asks all policies at once. The strictest answer counts. If one policy fails, ask returns an error.
func (g *Gate) ask(ctx context.Context, a *permissionv1.Action) (policyAnswer, error) {
	if len(g.opts.Chain) == 1 {
		return g.opts.Chain[0].ask(ctx, g, a)
	}
	type answer struct {
		policyAnswer
		err error
	}
	answers := make([]chan answer, len(g.opts.Chain))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, p := range g.opts.Chain {
		answers[i] = make(chan answer, 1)
		go func() {
			var s policyAnswer
			err := panics.Catch(g.opts.Logger, "asking a policy", func() (err error) {
				s, err = p.ask(ctx, g, a)
				return err
			})
			answers[i] <- answer{s, err}
		}()
	}
	out := policyAnswer{DecideResponse: &permissionv1.DecideResponse{Verdict: Allow, Grantable: true, Unattended: Allow, NamesPaths: true, NamesAddresses: true}, reused: true}
	asksByPath := false
	var failed error
	var digests, plugins []string
	for i := range answers {
		got := <-answers[i] // each ends with its timeout, or with ctx
		if got.err != nil {
			if failed == nil {
				failed = got.err
				cancel()
			}
			continue
		}
		digests, plugins = append(digests, got.PolicyDigest), append(plugins, got.plugin)
		out.LeaveOut = append(out.LeaveOut, got.LeaveOut...)
		out.NamesPaths = out.NamesPaths && got.NamesPaths
		out.NamesAddresses = out.NamesAddresses && got.NamesAddresses
		out.OnlyInRoots = out.OnlyInRoots || got.OnlyInRoots && got.Verdict == Allow
		out.reused = out.reused && got.reused
		out.Processes, out.Contained = out.Processes || got.Processes, out.Contained || got.Contained
		if strictness(got.Verdict) > strictness(out.Verdict) || out.Rule == "" && got.Verdict == out.Verdict {
			out.Verdict, out.Rule, out.Reason, out.Detail, out.Place = got.Verdict, got.Rule, got.Reason, got.Detail, got.Place
		} else if got.Verdict == Ask && out.Verdict == Ask && !strings.Contains(out.Reason, got.Reason) { // each may be about another part
			out.Reason = bounded(bounded(withRule(got.Reason, got.Rule), maxReason/2)+"; "+out.Reason, maxReason)
			out.Detail = bounded(strings.Trim(got.Detail+"; "+out.Detail, "; "), maxReason)
		}
		if got.Verdict == Ask {
			asksByPath = asksByPath || got.NamesPaths
			out.Grantable = out.Grantable && got.Grantable
			if got.Unattended != Allow {
				out.Unattended = Deny
			}
		}
	}
	if failed != nil {
		return policyAnswer{}, failed
	}
	if out.Verdict == Ask {
		out.NamesPaths = asksByPath
	} else {
		out.Grantable, out.Unattended = false, permissionv1.Verdict_VERDICT_UNSPECIFIED
	}
	out.PolicyDigest, out.plugin = strings.Join(digests, ","), strings.Join(plugins, ", ")
	return out, nil
}

func strictness(v permissionv1.Verdict) int {
	switch v {
	case Allow:
		return 0
	case Ask:
		return 1
	}
	return 2
}

// ask returns the policy's answer about an action: a new one, or an earlier one that covers this action.
func (p Policy) ask(ctx context.Context, g *Gate, a *permissionv1.Action) (policyAnswer, error) {
	conn, err := p.Conn()
	if err != nil {
		return policyAnswer{}, err
	}
	question := p.answers.asking(conn, a)
	out, found := question.earlier()
	if !found {
		if out, err = p.call(ctx, g, conn, &permissionv1.DecideRequest{Action: a, Reuse: question.mayReuse()}); err != nil {
			return policyAnswer{}, err
		}
		question.keep(out)
	}
	if h := question.held(); h != nil && out.Verdict == Allow {
		out.holds = h.answer.GetReuse()
	}
	if p.Doubt != nil && out.Verdict != Deny {
		if why := p.Doubt(); why != "" {
			out.Grantable, out.Unattended = false, Deny
			if out.Verdict == Allow {
				out.Verdict, out.Rule, out.Reason, out.Detail, out.Place, out.holds = Ask, RuleReload, why, "", "", nil
			}
		}
	}
	return out, nil
}

// call sends a request for a decision to the policy.
func (p Policy) call(ctx context.Context, g *Gate, conn grpc.ClientConnInterface, req *permissionv1.DecideRequest) (policyAnswer, error) {
	timeout := p.Timeout
	if timeout <= 0 || timeout > DecideTimeout {
		timeout = DecideTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	keeper, _ := conn.(Keeper)
	if keeper != nil {
		if kept := keeper.Kept(); len(kept) > 0 {
			sum := sha256.Sum256(kept)
			req.KeptDigest = sum[:]
		}
	}
	res, err := permissionv1.NewPermissionServiceClient(conn).Decide(ctx, req)
	if err != nil {
		g.opts.Logger.Debug("the policy did not decide", "handler", p.Name, "error", err)
		return policyAnswer{}, fmt.Errorf("handler %s %s", p.Name, whyUndecided(err, timeout))
	}
	if keep := res.GetKeep(); keeper != nil && len(keep) > 0 {
		keeper.Keep(keep) // before anything relies on the answer
	}
	out := policyAnswer{DecideResponse: res}
	out.Rule, out.Reason, out.PolicyDigest = bounded(out.Rule, 256), bounded(out.Reason, maxReason), bounded(out.PolicyDigest, 256)
	out.Place, out.Detail = bounded(out.Place, 2048), bounded(out.Detail, maxReason)
	if p.Plugin != nil {
		out.plugin = p.Plugin()
	}
	switch out.Verdict {
	case Allow, Deny, Ask:
	default:
		out.Reason = reason.UnknownVerdict.With(out.Verdict)
		out.Verdict = Deny
	}
	return out, nil
}

// whyUndecided returns the reason why a policy did not decide. It omits gRPC's texts about sockets and files, which agents must not see.
func whyUndecided(err error, timeout time.Duration) string {
	switch st := status.Convert(err); st.Code() {
	case codes.Unavailable:
		return "cannot be reached"
	case codes.DeadlineExceeded:
		return fmt.Sprintf("did not answer within %v", timeout)
	default:
		return "failed: " + bounded(st.Message(), maxReason)
	}
}

// Answered notifies the policies of the answer to a question that they returned Ask for. It ignores errors, because a policy need not
// implement it. It returns within DecideTimeout.
func (g *Gate) Answered(ctx context.Context, d *Decision, option, by string) {
	ctx, cancel := context.WithTimeout(ctx, DecideTimeout)
	defer cancel()
	for _, p := range g.opts.Chain {
		conn, err := p.Conn()
		if err != nil {
			continue
		}
		_, err = permissionv1.NewPermissionServiceClient(conn).Answered(ctx, &permissionv1.AnsweredRequest{
			Action: d.request.Action,
			Decision: &permissionv1.DecideResponse{
				Verdict: Ask, Rule: d.Rule, Reason: d.Reason, Detail: d.Detail, Grantable: d.Grantable,
				PolicyDigest: d.digest, Unattended: d.Unattended,
			},
			Outcome:    option,
			AnsweredBy: by,
		})
		if err != nil {
			g.opts.Logger.Debug("the policy does not take answers", "handler", p.Name, "error", err)
		}
	}
}

// bounded truncates a plugin's text to n bytes of valid UTF-8.
func bounded(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "")
}
