// Package gate decides what an agent may do: about the permission requests of the agent (door one), about the calls that the
// agent makes (door two), and about what its processes do by themselves, where the kernel asks (door three). It asks the policies, and denies if they fail. It keeps acphost's own files from the agent,
// remembers answers, records every decision, and notices what an agent did without asking.
//
// The package knows actions, verdicts and answers. It must not know how a question reaches the user, nor JSON-RPC.
package gate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/hosts"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/audit"
	"github.com/acphost/acphost/services/supervisor/internal/grant"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/leaveout"
	"github.com/acphost/acphost/services/supervisor/internal/secret"
)

// Short names of the verdicts.
const (
	Allow = permissionv1.Verdict_VERDICT_ALLOW
	Deny  = permissionv1.Verdict_VERDICT_DENY
	Ask   = permissionv1.Verdict_VERDICT_ASK
)

// Rules of acphost's own, which count whatever a policy says.
const (
	// RuleProtected denies acphost's own files.
	RuleProtected = "acphost/protected"
	// RuleLeaveOut asks a person about a command that walks through folders with files that the policy keeps from it, if its
	// programs cannot be told to leave these out.
	RuleLeaveOut = "acphost/leave-out"
	// RuleUnclear asks a person about a command that may name a key file, if only running the command would tell.
	RuleUnclear = "acphost/unclear"
	// RuleMode has a person asked about changes of mode.
	RuleMode = "acphost/mode"
	// RuleUnrecorded denies what could not be recorded.
	RuleUnrecorded = "acphost/unrecorded"
	// RuleGit denies writes to what is git's own, from which git runs programs.
	RuleGit = "acphost/git"
	// RuleSandbox is for what the sandbox refuses by itself: no decision could hold after it.
	RuleSandbox = "acphost/sandbox"
	// RuleOutside denies what a handler would refuse whatever a person says: a folder outside of the session's roots.
	RuleOutside = "acphost/outside"
	// RuleReload asks a person about everything once a policy can no longer be believed: its files have changed.
	RuleReload = "acphost/reload-needed"
	// RuleNetwork denies connections past acphost's proxy, and all where there is no network.
	RuleNetwork = "acphost/network"
	// RuleMetadata denies the addresses at which clouds keep keys of a machine.
	RuleMetadata = "acphost/metadata"
	// RuleAddress has a person asked about an address that is not on the internet, if a rule allows a name that leads there.
	RuleAddress = "acphost/address"
	// RuleAgentHosts allows the machines without which an agent does not work, unless a policy denies them.
	RuleAgentHosts = "acphost/agent-hosts"
	// RuleNoPolicy is a rule of permd's: calls pass if nobody has chosen a policy.
	RuleNoPolicy = "acphost/no-policy"
)

// OwnRules begins the names of acphost's own rules, and of no policy's.
const OwnRules = "acphost/"

// Who answered, as the audit has it.
const (
	ByPolicy  = "policy"
	ByGrant   = "grant"
	ByEarlier = "earlier answer"
	ByClient  = "front"
	ByTimeout = "timeout"
	ByAcphost = "acphost"
	ByCommand = "command"
	ByNobody  = "nobody"
)

// Options say what a Gate works with.
type Options struct {
	// Chain are the policies that are asked; the strictest counts. Empty: none, every question goes to the client and
	// every call passes.
	Chain []Policy
	// Enforced: a policy was chosen. Then door two decides, and an action is denied if no policy answers.
	Enforced bool
	// WorkspacePolicy is the name, relative to a root, of a rule file that counts even if no policy was chosen. Empty: no
	// such file counts.
	WorkspacePolicy string
	// Methods are those that door two decides, whole or as a namespace ("fs/*").
	Methods []string
	// Protected are the absolute paths that no agent may touch.
	Protected []string
	// Grants are the remembered answers; nil: none are.
	Grants *grant.Store
	// Audit takes the records; nil: nothing is recorded.
	Audit *audit.Log
	// AuditOptional: an action that is allowed stays allowed if its record cannot be written.
	AuditOptional bool
	// Denied is told each action that is denied, or that the agent did although the policy denies it, as its record, whether it is
	// recorded or not. It is called from any goroutine and must not wait. Nil: nobody is told.
	Denied func(*supervisorv1.AuditRecord)
	// Decided is told each decision with its outcome, as its record, whether it is recorded or not. It is called from any
	// goroutine, must not wait, and must not keep the record. Nil: nobody is told.
	Decided func(*supervisorv1.AuditRecord)
	// Changed is told after each change of what the Gate goes by beside policies: a policy counts from now on, a file
	// is protected. Nil: nobody is told.
	Changed func()
	// PID is the supervisor's, for the records.
	PID int
	// Now tells the time; time.Now if nil.
	Now    func() time.Time
	Logger *slog.Logger
}

// Gate decides. Safe for concurrent use.
type Gate struct {
	opts      Options
	protected []string                  // each as it is written, and where it led
	keys      atomic.Pointer[[]keyFile] // changed under mu; nil: none

	repositories leaveout.Repositories

	enforced atomic.Bool
	ruled    sync.Map // roots that have had a rule file of their own

	mu       sync.Mutex // guards what follows; not held while anybody is asked or written to
	counters supervisorv1.GateCounters
	ledgers  map[string]*ledger // by scope
	kernel   kernelDoor
	failing  failing // to record
}

// New returns a Gate.
func New(o Options) *Gate {
	if o.Now == nil {
		o.Now = time.Now
	}
	g := &Gate{
		opts:      o,
		protected: newProtected(o.Protected),
		counters:  supervisorv1.GateCounters{Observed: map[string]uint64{}, Unasked: map[string]uint64{}},
		ledgers:   map[string]*ledger{},
		kernel:    kernelDoor{tried: map[string][]*triedAnswer{}, tallies: map[string]map[tallyKey]*tally{}},
	}
	g.opts.Chain = slices.Clone(o.Chain)
	for i := range g.opts.Chain {
		g.opts.Chain[i].answers = &heldAnswers{}
	}
	g.enforced.Store(o.Enforced)
	return g
}

// Enforce has the policies count from now on, though none was chosen at the start: a person has put one in place.
func (g *Gate) Enforce() {
	g.enforced.Store(true)
	g.changed()
}

func (g *Gate) changed() {
	if g.opts.Changed != nil {
		g.opts.Changed()
	}
}

// Request is an action that is to be decided.
type Request struct {
	Action *permissionv1.Action
	// Scope is the session's, by which the supervisor tells sessions apart.
	Scope string
	// Turn counts the session's prompts.
	Turn uint64
	// Written is what a call writes into a file (intent.Written); nil for a call that writes none.
	Written *intent.File
	// GivenUp: the client has cancelled the turn, so that no answer of the user's in it lets a call pass.
	GivenUp bool
	// Argv is the program that the call starts, with its arguments, if acphost can start it with others: Decision.Argv are those
	// that have it leave files out. Nil: the command runs as it is.
	Argv []string
	// Elsewhere: the command of the call runs at a sidecar, which may have folders that are not seen from here.
	Elsewhere bool
	// Outside: the call leaves the session's roots, at a handler that opens the file only if a person, or a rule, meant
	// that file. An earlier answer counts for it only if a diff showed the file.
	Outside bool
	// Terminals are those that a tool call shows; for Reported alone.
	Terminals []string
	// Lenient, at door three: only what is denied is refused.
	Lenient bool
	// Inner, at door three, is the command that the agent wraps in the action's own, if it is known how the agent wraps: an answer
	// about it is one about the action.
	Inner *permissionv1.Action
	// Proxied, at door three: the action connects to a machine by acphost's proxy. Needs are the machines without which the agent
	// does not work.
	Proxied bool
	Needs   []hosts.Pattern
	// Apart, at door three: a program starts where the agent may have chosen its libraries and settings by mounts. An
	// answer of a person's about the program elsewhere is none about this.
	Apart bool
	// Closed, at door three, says why the action is denied whatever a policy says; empty: a policy decides.
	Closed string
	// Kernel, for Reported: door three sees all that the agent does, but what it reads.
	Kernel bool

	ledger *ledger // what was decided in the turn, for Reported; nil: that of the turn as it is then
}

func (r Request) where() grant.Where {
	w := grant.Where{
		Scope:     r.Scope,
		SessionID: r.Action.GetSessionId(),
		Agent:     r.Action.GetAgent(),
		Turn:      r.Turn,
	}
	if roots := r.Action.GetRoots(); len(roots) > 0 {
		w.Workspace = roots[0]
	}
	if roots := r.Action.GetResolvedRoots(); len(roots) > 0 && roots[0] != "" {
		w.Workspace = roots[0]
	}
	return w
}

// Decision is what is to be done about an action. Give every decision that is acted on to Record.
type Decision struct {
	Verdict permissionv1.Verdict
	// Rule is the rule that decided; empty if none did.
	Rule string
	// Reason says why, in words for the person and the agent.
	Reason string
	// Grantable, for Ask: an answer may be remembered.
	Grantable bool
	// Unattended, for Ask: Allow or Deny, where nobody is there to answer.
	Unattended permissionv1.Verdict
	// By says who decided.
	By string
	// Shown is what the agent's words in the question show. An answer lets a write pass door two only if the write leaves a
	// file as Shown.Edits has it. On a surface that shows the agent's words alone, an answer opens and remembers only what
	// Shown covers. The caller sets it before Record.
	Shown Seen
	// Before, for a write that passes for an earlier answer, is the SHA-256 of the file as the question's diff was made
	// from it. If the file is another by now, the caller decides again with no Written: the user has not seen what the write
	// would undo. Nil for all else.
	Before *[sha256.Size]byte
	// Said is what the agent said, in its own words, in the permission request that is left to a call: set it before a request is
	// recorded with Outcome.Left; Decide sets it for the call. Empty: the agent said nothing.
	Said string
	// Always and Never, for Ask at door two, are what an answer for all times would cover. If one has no text, it must not
	// be offered.
	Always, Never grant.Offer

	id      string
	request Request
	digest  string
	placed  ruleAt
	plugin  string
	grants  []*supervisorv1.Grant
	latency time.Duration
	active  bool // by a policy, so that it is recorded
	named   bool // it is allowed only as what the agent calls the tool
	person  bool // for ByEarlier: a person gave that answer
	tried   bool // for ByEarlier: it is about the last try
	names   bool // by a policy whose rule names the paths
	reused  bool // the policies said so about an earlier action
	special bool // by a policy whose rule names the addresses, or by what is known of the agent

	kept      []string // globs of files that the command must not read below folders, unless the user knows that it does
	readsKept bool     // Reason says that it reads such files; for ByEarlier: the person who answered has read that
	argv      []string // Argv

	left *leftRequest // the request that was left to this call; nil: none was

	reuse *permissionv1.Reuse // for which other actions all that the policies said holds; nil: for none
}

// ruleAt is where a rule stands. What acphost itself decides later has another rule, and none of its places.
type ruleAt struct{ rule, place string }

// ID names the decision in the audit.
func (d *Decision) ID() string { return d.id }

// Argv is the program to start, with its arguments, in the place of Request.Argv: it leaves out the files that the policy keeps from it.
// Nil: it is started as the request has it.
func (d *Decision) Argv() []string { return d.argv }

// Active reports whether a policy decided, and not nobody since none was chosen.
func (d *Decision) Active() bool { return d.active }

// What says in words what the decision is about: "write /w/a". It is safe and bounded (intent.Summary).
func (d *Decision) What() string { return intent.Summary(d.request.Action) }

// Denial says in words what was denied, why, and by which rule.
func (d *Decision) Denial() string { return d.What() + ": " + d.Why() }

// Why says in words why it was decided so, and by which rule.
func (d *Decision) Why() string { return withRule(d.Reason, d.Rule) }

// withRule puts the rule behind the reason, unless the reason names the rule already: permd's reason for a rule without one is
// "denied by rule x", and the reason of several rules names each of them.
func withRule(reason, rule string) string {
	switch {
	case rule == "", namesRule(reason, rule):
		return reason
	case reason == "":
		return "rule " + rule
	}
	return fmt.Sprintf("%s (rule %s)", strings.TrimSuffix(reason, "."), rule)
}

// namesRule reports whether a reason names the rule: "denied by rule x", "pushing is for a person (rule x)".
func namesRule(reason, rule string) bool {
	for rest := reason; ; {
		_, after, found := strings.Cut(rest, "rule "+rule)
		if !found {
			return false
		}
		if after == "" || strings.ContainsRune(" ,;:.)", rune(after[0])) {
			return true
		}
		rest = after
	}
}

// Active reports whether a policy counts for what happens in sessions with the given roots, so that door two decides. A
// root that has had a rule file keeps being ruled: an agent that removes the file gains nothing.
func (g *Gate) Active(roots []string) bool {
	return len(g.opts.Chain) > 0 && (g.enforced.Load() || g.isRuled(roots))
}

func (g *Gate) isRuled(roots []string) bool {
	if g.opts.WorkspacePolicy == "" {
		return false
	}
	ruled := false
	for _, root := range roots {
		_, known := g.ruled.Load(root)
		if !known && workspaceHas(root, g.opts.WorkspacePolicy) {
			known = true
			g.ruled.Store(root, true)
		}
		ruled = ruled || known
	}
	return ruled
}

// Decides reports whether door two decides about a method, in a session with the given roots.
func (g *Gate) Decides(method string, roots []string) bool {
	if len(g.opts.Chain) == 0 {
		return false
	}
	for _, m := range g.opts.Methods {
		space, whole := strings.CutSuffix(m, "*")
		if method == m || whole && strings.HasPrefix(method, space) {
			return g.Active(roots)
		}
	}
	return false
}

// Decide decides about an action. Ask means that a person must be asked. It returns within DecideTimeout, or with ctx's
// error once ctx is done.
func (g *Gate) Decide(ctx context.Context, r Request) (*Decision, error) {
	started := g.opts.Now()
	d := &Decision{id: jsonrpc.NewID(), request: r, By: ByAcphost, active: g.Active(r.Action.GetRoots())}
	if err := g.decide(ctx, r, d); err != nil {
		return nil, err
	}
	g.doubt(r, d)
	g.takeLeft(r, d)
	switch {
	case d.Verdict == Ask && r.Action.GetDoor() == permissionv1.Door_DOOR_KERNEL:
		g.kernelAsks(r, d)
	case d.Verdict == Ask:
		g.remembered(r, d)
	case d.Verdict == Allow && d.By == ByPolicy:
		d.named = g.needsName(ctx, r.Action, DecideTimeout-g.opts.Now().Sub(started))
	}
	d.latency = g.opts.Now().Sub(started)
	if g.opts.Logger.Enabled(ctx, slog.LevelDebug) {
		g.opts.Logger.Debug("decided", "door", doorName(r.Action), "method", r.Action.GetMethod(), "session", r.Action.GetSessionId(),
			"action", r.Action.GetKind(), "verdict", VerdictName(d.Verdict), "rule", d.Rule, "reason", secret.Text(d.Reason), "by", d.By,
			"reused", d.reused, "duration_us", d.latency.Microseconds())
	}
	return d, nil
}

func (g *Gate) decide(ctx context.Context, r Request, d *Decision) error {
	a := r.Action
	ruling := Ahead(a)
	if ruling == nil {
		ruling = machineAhead(r)
	}
	if ruling != nil {
		d.Verdict, d.Rule, d.Reason = ruling.Verdict, ruling.Rule, ruling.Reason
		return nil
	}
	if a.GetDoor() == permissionv1.Door_DOOR_CALL && !r.GivenUp && g.answeredEarlier(r, d) {
		return g.leaveOutAnswered(ctx, r, d)
	}
	if len(g.opts.Chain) == 0 {
		d.Verdict, d.Reason = Ask, "questions are routed to the client"
		return nil
	}
	said, err := g.ask(ctx, a)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !d.active:
		d.Verdict, d.Reason = Ask, "no policy is set"
	case err != nil:
		d.Verdict, d.Reason = Deny, unasked(err)
	default:
		d.By = ByPolicy
		d.Verdict, d.Rule, d.Reason = said.Verdict, said.Rule, said.Reason
		d.Grantable, d.Unattended, d.placed = said.Grantable, said.Unattended, ruleAt{said.Rule, said.Place}
		d.digest, d.plugin, d.names, d.reused = said.PolicyDigest, said.plugin, said.NamesPaths, said.reused && said.Verdict == Allow
		d.reuse = said.holds
		g.leaveOut(r, d, said.GetLeaveOut())
		machineBehind(r, d, said.DecideResponse)
	}
	return nil
}

// needsName reports whether an action is allowed because of its tool's name, and not because of what it does. Only the agent
// knows whether the name is true. So the name is enough for what the agent does itself, and never for a call that it makes.
func (g *Gate) needsName(ctx context.Context, a *permissionv1.Action, within time.Duration) bool {
	if a.GetTool() == "" || a.GetDone() || a.GetDoor() != permissionv1.Door_DOOR_REQUEST {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	nameless := proto.CloneOf(a)
	nameless.Tool = ""
	said, err := g.ask(ctx, nameless)
	return err != nil || said.Verdict != Allow
}

// remembered lets a remembered answer stand for a person's, where the policy lets it.
func (g *Gate) remembered(r Request, d *Decision) {
	if g.opts.Grants == nil || !d.Grantable {
		return
	}
	m := g.opts.Grants.Match(r.Action, r.where())
	if r.Outside && m.Verdict == grant.Allow && slices.ContainsFunc(m.Grants, (*supervisorv1.Grant).GetByRequest) {
		m.Verdict = grant.None
	}
	switch m.Verdict {
	case grant.Allow:
		d.Verdict, d.By, d.grants = Allow, ByGrant, m.Grants
	case grant.Refuse:
		d.Verdict, d.By, d.grants, d.Reason = Deny, ByGrant, m.Grants, "a person refused this for good"
	default:
		if isDone(r.Action) {
			d.Always, d.Never = grant.Widest(r.Action, r.where()), grant.Refusal(r.Action, r.where())
		}
	}
}

// VerdictName is a verdict as rules spell it; what is none counts as deny.
func VerdictName(v permissionv1.Verdict) string {
	switch v {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	}
	return "deny"
}

func doorName(a *permissionv1.Action) string {
	switch {
	case a.GetDone():
		return "report"
	case a.GetDoor() == permissionv1.Door_DOOR_CALL:
		return "call"
	case a.GetDoor() == permissionv1.Door_DOOR_KERNEL:
		return "kernel"
	}
	return "request"
}
