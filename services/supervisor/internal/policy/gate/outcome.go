package gate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/acphost/acphost/internal/reason"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/policy/grant"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Outcome is the outcome of a decision.
type Outcome struct {
	Allowed, Cancelled bool
	// By says who answered in the end; empty: Decision.By.
	By string
	// Option is the kind of option that a person chose; empty: none.
	Option string
	// Asked is how long the question was open.
	Asked time.Duration
	// Surface is the surface on which a person chose an option.
	Surface Surface

	// Left: the request was deferred to the call that follows, which is decided (Gate.Leaves). This allows nothing, and is not remembered
	// as an answer.
	Left bool

	// Doubtful: the person may have answered about another action than the decided one. The answer counts once, and is not remembered.
	Doubtful bool
	// Unclear: the person chose an option of an unknown kind. The action is denied, because only options that are known to allow an action
	// allow it. The answer counts once.
	Unclear bool

	reported string // outcome of an action that was performed without a decision
}

// Record records the outcome of a decision, and remembers the answer if it may be remembered. Call it once for each decision, before the
// outcome is sent to anyone. An error means that the action must be denied. Only an allowance can have an error.
func (g *Gate) Record(d *Decision, o Outcome) error {
	if o.By == "" {
		o.By = d.By
	}
	person := o.Option != "" || d.By == ByGrant
	made := g.remember(d, o)
	err := g.record(d, o, made)
	if err != nil {
		g.tally(func(c *supervisorv1.GateCounters) { c.Unrecorded++ })
		if g.opts.AuditOptional || !o.Allowed && !o.Left {
			err = nil
		}
	}
	allowed := o.Allowed && err == nil
	switch {
	case o.Left:
		if err == nil {
			g.mu.Lock()
			g.deferRequest(d)
			g.mu.Unlock()
		}
	case !o.Cancelled && !o.Unclear && !(o.Doubtful && allowed):
		g.rememberAnswer(d, o, allowed, person)
		if len(made) == 0 { // a grant holds the answer instead, so that revoking it has an effect
			g.tried(d, o, allowed)
		}
	}
	if g.opts.Denied != nil && !allowed && !o.Cancelled && !(o.Left && err == nil) && o.reported == "" {
		rec := g.recordOf(d, o, made)
		if o.Allowed || o.Left {
			unrecorded(rec)
		}
		g.opts.Denied(rec)
	}
	if g.opts.Decided != nil {
		rec := g.recordOf(d, o, made)
		if (o.Allowed || o.Left) && err != nil {
			unrecorded(rec)
		}
		g.opts.Decided(rec)
	}
	g.count(d, o, allowed)
	return err
}

// unrecorded changes the record of an allowance that could not be written into the record of a denial, for Denied and Decided. Without the
// change, the reason of the rule that allows would be the reason of the denial.
func unrecorded(rec *supervisorv1.AuditRecord) {
	rec.Rule, rec.Place, rec.Outcome = RuleUnrecorded, "", outcomeDenied
	rec.Reason, rec.Detail = reason.NotRecorded.String(), ""
}

// Unasked reports whether the outcome is an allowance that no person gave, now or earlier. Git must then run no program
// of a repository. It is false if no policy was chosen, because nobody is asked then, for a command that runs the
// project's own code and no git beside it, and for a contained command: the sandbox decides the actions of these
// programs.
func (d *Decision) Unasked(o Outcome) bool {
	switch {
	case !o.Allowed || o.Option != "" || d.By == ByGrant || d.Rule == RuleNoPolicy || d.Contained() || runsProject(d.request.Action):
		return false
	case d.By == ByEarlier:
		return !d.person
	}
	return true
}

// Outside reports whether the outcome lets a call leave the session's roots for the file that it names: a person, now or earlier, or a rule
// that names the file allowed it.
func (d *Decision) Outside(o Outcome) bool {
	switch {
	case !o.Allowed || o.Doubtful:
		return false
	case o.Option != "" || d.By == ByGrant:
		return true
	case d.By == ByEarlier:
		return d.person
	}
	return d.Verdict == Allow && d.names
}

// remember makes grants from a person's answer, if the answer is permanent.
func (g *Gate) remember(d *Decision, o Outcome) []*supervisorv1.Grant {
	if g.opts.Grants == nil || !d.Grantable || o.Doubtful || o.Cancelled || d.Verdict != Ask || (o.Option != acp.AllowAlways && o.Option != acp.RejectAlways) {
		return nil
	}
	grants := d.Always.Grants
	if o.Option == acp.RejectAlways {
		grants = d.Never.Grants
	}
	if !isDone(d.request.Action) {
		// The agent's words describe the reach of "always". Grant exactly the requested action, and only if the person can have read what
		// it is.
		a := d.request.Action
		if o.Option == acp.AllowAlways && !(d.Shown.covers(o.Surface, a) && intent.NamesAsItLeads(a, a)) {
			return nil
		}
		var err error
		grants, err = grant.Exactly(d.request.Action, d.request.where(), supervisorv1.GrantScope_GRANT_SCOPE_SESSION)
		if err != nil {
			g.opts.Logger.Debug("an answer is not remembered", "error", err)
			return nil
		}
		for _, made := range grants {
			made.Refuse, made.ByRequest = o.Option == acp.RejectAlways, true
		}
	}
	for _, made := range grants {
		made.GrantedBy, made.QuestionId = o.By, d.id
	}
	if err := g.opts.Grants.Add(d.request.where(), grants...); err != nil {
		g.opts.Logger.Error("an answer could not be remembered: it counts this once", "error", err)
		return nil
	}
	return grants
}

// record writes the record of a decision.
func (g *Gate) record(d *Decision, o Outcome, made []*supervisorv1.Grant) error {
	if g.opts.Audit == nil || !d.active {
		return nil
	}
	err := g.opts.Audit.Write(g.recordOf(d, o, made))
	g.logWritten(d, o, err)
	return err
}

// failing is the state of the log messages about records that could not be written.
type failing struct {
	logged   time.Time // time of the last message; zero: all records were written
	unlogged int       // failures since then
}

// logInterval is the time between log messages about decisions that cannot be recorded, because an agent may try a thousand actions a
// second.
const logInterval = time.Minute

// logWritten logs that a decision could not be recorded, at most once per logInterval, and that decisions are recorded again.
func (g *Gate) logWritten(d *Decision, o Outcome, err error) {
	g.mu.Lock()
	was, now := g.failing, g.opts.Now()
	switch {
	case err == nil:
		g.failing = failing{}
	case was.logged.IsZero() || now.Sub(was.logged) >= logInterval:
		g.failing = failing{logged: now}
	default:
		g.failing.unlogged++
		g.mu.Unlock()
		return
	}
	g.mu.Unlock()
	switch {
	case err != nil:
		g.opts.Logger.Error("a decision could not be recorded; further ones are counted for a minute", "error", err,
			"action", d.request.Action.GetKind(), "outcome", outcomeName(d, o), "unlogged", was.unlogged)
	case !was.logged.IsZero():
		g.opts.Logger.Warn("decisions are recorded again", "unlogged", was.unlogged)
	}
}

// recordOf returns the record of a decision.
func (g *Gate) recordOf(d *Decision, o Outcome, made []*supervisorv1.Grant) *supervisorv1.AuditRecord {
	rec := &supervisorv1.AuditRecord{
		Time:          timestamppb.New(g.opts.Now()),
		Id:            d.id,
		Supervisor:    uint32(g.opts.PID),
		SessionId:     d.request.Action.GetSessionId(),
		Agent:         d.request.Action.GetAgent(),
		Door:          doorName(d.request.Action),
		Action:        d.request.Action,
		Verdict:       VerdictName(d.Verdict),
		Rule:          d.Rule,
		Reason:        d.Reason,
		Detail:        d.Detail,
		PolicyDigest:  d.digest,
		Plugin:        d.plugin,
		LatencyMicros: uint32(min(d.latency.Microseconds(), math.MaxUint32)),
		AnsweredBy:    o.By,
		Outcome:       outcomeName(d, o),
		Option:        o.Option,
		AskedMillis:   uint32(min(o.Asked.Milliseconds(), math.MaxUint32)),
		Reused:        d.reused,
	}
	if d.placed.rule == d.Rule {
		rec.Place = d.placed.place
	}
	if d.By == ByGrant {
		rec.Verdict = "ask" // the policy's verdict; a grant answered
	}
	for _, of := range slices.Concat(d.grants, made) {
		rec.Grants = append(rec.Grants, of.GetId())
	}
	return rec
}

const (
	// OutcomeLeft is the outcome of a permission request that was deferred to its call (Outcome.Left), in records.
	OutcomeLeft = "left to the call"
	// outcomeDenied is the outcome of a denied action, in records.
	outcomeDenied = "denied"
	// outcomeNextTry is the outcome of a process action that was refused, because it cannot wait, and about which the
	// answer was to allow it: the next try passes (tried). Its record is written when the question ends.
	outcomeNextTry = "refused, then allowed"
	// outcomeUnasked is the outcome of an action that an agent performed without asking, although the policy denies it or would have asked.
	outcomeUnasked = "done, not asked"
)

// outcomeName returns the outcome of a decision in its record.
func outcomeName(d *Decision, o Outcome) string {
	switch {
	case o.reported != "":
		return o.reported
	case o.Cancelled:
		return "cancelled"
	case o.Left:
		return OutcomeLeft
	case o.Allowed && d.wasRefused():
		return outcomeNextTry
	case o.Allowed:
		return "allowed"
	}
	return outcomeDenied
}

func (g *Gate) count(d *Decision, o Outcome, allowed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &g.counters
	if d.Rule == RuleProtected || d.Rule == RuleGit {
		c.Protected++
	}
	if !isDone(d.request.Action) {
		c.Questions++
		switch {
		case o.Left: // neither answered nor forwarded
		case d.Verdict == Ask:
			c.Forwarded++
		case allowed:
			c.Allowed++
		default:
			c.Denied++
		}
		return
	}
	if d.Verdict == Ask {
		c.CallsAsked++
	}
	switch {
	case allowed && !d.wasRefused():
		c.CallsAllowed++
	case !o.Cancelled:
		c.CallsDenied++
	}
}

// Observe counts a call that no policy decides about. It rejects the call only if it accesses acphost's own files, or writes to git's
// internal files. The error is in words for the agent.
func (g *Gate) Observe(a *permissionv1.Action) error {
	g.Seen(a.GetKind())
	r := refused(a)
	if r == nil {
		return nil
	}
	g.tally(func(c *supervisorv1.GateCounters) { c.Protected++ })
	rec := &supervisorv1.AuditRecord{
		SessionId: a.GetSessionId(), Agent: a.GetAgent(), Door: doorName(a), Action: a, Verdict: VerdictName(Deny),
		Rule: r.Rule, Reason: r.Reason, AnsweredBy: ByAcphost, Outcome: outcomeDenied,
	}
	if g.opts.Denied != nil {
		g.opts.Denied(rec)
	}
	if g.opts.Decided != nil {
		g.opts.Decided(rec)
	}
	return fmt.Errorf("denied by rule %s: %s", r.Rule, r.Reason)
}

// Limits on the counted kinds, because an agent may call any method.
const (
	maxKinds    = 256
	maxKindName = 128
	otherKinds  = "other"
)

// Seen counts a call of a kind, whatever its decision. Kinds beyond the limit are counted together.
func (g *Gate) Seen(kind string) {
	kind = bounded(kind, maxKindName)
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.counters.Observed[kind]; !known && len(g.counters.Observed) >= maxKinds {
		kind = otherKinds
	}
	g.counters.Observed[kind]++
}

// Waiting counts the questions that wait for a person: 1 when one begins, -1 when it ends.
func (g *Gate) Waiting(n int) {
	g.tally(func(c *supervisorv1.GateCounters) { c.OpenQuestions = uint32(int(c.GetOpenQuestions()) + n) })
}

// tally updates the counters.
func (g *Gate) tally(count func(c *supervisorv1.GateCounters)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	count(&g.counters)
}

// Counters returns the counts so far.
func (g *Gate) Counters() *supervisorv1.GateCounters {
	g.mu.Lock()
	defer g.mu.Unlock()
	return proto.CloneOf(&g.counters)
}
