// Package gate decides about an agent's actions: its permission requests, the calls that it makes, and the process actions that the sandbox
// and the proxy ask about. It asks the policies, and denies if they fail. It protects acphost's own files, remembers answers, records every
// decision, and detects actions that the agent reports without having asked.
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
	"github.com/acphost/acphost/internal/reason"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/policy/audit"
	"github.com/acphost/acphost/services/supervisor/internal/policy/grant"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/policy/leaveout"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
)

// Short names of the verdicts.
const (
	Allow = permissionv1.Verdict_VERDICT_ALLOW
	Deny  = permissionv1.Verdict_VERDICT_DENY
	Ask   = permissionv1.Verdict_VERDICT_ASK
)

// Rules of acphost itself, which apply whatever a policy says.
const (
	// RuleProtected denies access to acphost's own files.
	RuleProtected = "acphost/protected"
	// RuleLeaveOut asks a person about a command that walks through folders with files that the policy forbids it to read, if its programs
	// have no option to leave these files out.
	RuleLeaveOut = "acphost/leave-out"
	// RuleUnclear asks a person about a command that may name a key file, if that is only known when the command runs.
	RuleUnclear = "acphost/unclear"
	// RuleMode asks a person about changes of mode.
	RuleMode = "acphost/mode"
	// RuleUnrecorded denies an action that could not be recorded.
	RuleUnrecorded = "acphost/unrecorded"
	// RuleGit denies writes to git's internal files, because git runs programs that are configured there.
	RuleGit = "acphost/git"
	// RuleSandbox is the rule of refusals by the sandbox itself: no decision could be enforced after the action.
	RuleSandbox = "acphost/sandbox"
	// RuleOutside denies calls that a handler would reject whatever a person says: a folder outside of the session's roots.
	RuleOutside = "acphost/outside"
	// RuleReload asks a person about everything once a policy is out of date because its files have changed.
	RuleReload = "acphost/reload-needed"
	// RuleNetwork denies connections that bypass acphost's proxy, and all connections if there is no network.
	RuleNetwork = "acphost/network"
	// RuleMetadata denies connections to cloud metadata addresses, which serve keys of a machine.
	RuleMetadata = "acphost/metadata"
	// RuleAddress asks a person about an address that is not on the internet, if a rule allows a name that resolves to it.
	RuleAddress = "acphost/address"
	// RuleAgentHosts allows the machines that an agent cannot work without, and denies those that it is known not to
	// need. It applies where a policy asks.
	RuleAgentHosts = "acphost/agent-hosts"
	// RuleNoPolicy is a rule of permd: calls pass if no policy was chosen.
	RuleNoPolicy = "acphost/no-policy"
)

// OwnRules is the prefix of the names of acphost's own rules. Policies do not use it.
const OwnRules = "acphost/"

// Values for Outcome.By, as in the audit.
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

// Options configure a Gate.
type Options struct {
	// Chain are the policies. The strictest answer counts. Empty: every question goes to the client, and every call passes.
	Chain []Policy
	// Enforced: a policy was chosen. Calls are decided then, and an action is denied if no policy answers.
	Enforced bool
	// WorkspacePolicy is the name, relative to a root, of a rule file that applies even if no policy was chosen. Empty: no such file
	// applies.
	WorkspacePolicy string
	// Methods are the methods whose calls are decided, each a full name or a namespace ("fs/*").
	Methods []string
	// Protected are absolute paths that no agent may access.
	Protected []string
	// Grants are the remembered answers; nil: answers are not remembered.
	Grants *grant.Store
	// Audit receives the records; nil: nothing is recorded.
	Audit *audit.Log
	// AuditOptional: an allowed action stays allowed if its record cannot be written.
	AuditOptional bool
	// Denied receives the record of each denied action, and of each action that the agent performed although the policy denies it, even if
	// it is not written to Audit. It is called from any goroutine and must not block. Nil: not called.
	Denied func(*supervisorv1.AuditRecord)
	// Decided receives the record of each decision with its outcome, even if it is not written to Audit. It is called from any goroutine,
	// must not block, and must not keep the record. Nil: not called.
	Decided func(*supervisorv1.AuditRecord)
	// Changed is called after each change of the Gate's state other than policies: policies are enforced from now on, a file is protected.
	// Nil: not called.
	Changed func()
	// PID is the supervisor's pid, for the records.
	PID int
	// Now returns the time; time.Now if nil.
	Now    func() time.Time
	Logger *slog.Logger
}

// Gate decides about actions. It is safe for concurrent use.
type Gate struct {
	opts      Options
	protected []string                  // each as configured, and with its links resolved
	keys      atomic.Pointer[[]keyFile] // changed under mu; nil: none

	repositories leaveout.Repositories

	enforced atomic.Bool
	ruled    sync.Map // roots that have had a rule file

	mu       sync.Mutex // guards what follows; not held during calls to policies or while writing
	counters supervisorv1.GateCounters
	ledgers  map[string]*ledger // by scope
	kernel   processActions
	failing  failing // failures to write records
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
		kernel:    processActions{tried: map[string][]*triedAnswer{}, tallies: map[string]map[tallyKey]*tally{}},
	}
	g.opts.Chain = slices.Clone(o.Chain)
	for i := range g.opts.Chain {
		g.opts.Chain[i].answers = &heldAnswers{}
	}
	g.enforced.Store(o.Enforced)
	return g
}

// Enforce makes the policies apply from now on, although none was chosen at the start. It is called when a person has set one.
func (g *Gate) Enforce() {
	g.enforced.Store(true)
	g.changed()
}

func (g *Gate) changed() {
	if g.opts.Changed != nil {
		g.opts.Changed()
	}
}

// Request is an action to be decided.
type Request struct {
	Action *permissionv1.Action
	// Scope identifies the session within the supervisor.
	Scope string
	// Turn is the number of the session's prompt.
	Turn uint64
	// Written is the content that a call writes to a file (intent.Written); nil for other calls.
	Written *intent.File
	// GivenUp: the client has cancelled the turn, so no answer of the user in this turn lets a call pass.
	GivenUp bool
	// Argv is the program that the call starts, with its arguments, if acphost can change the arguments. Decision.Argv then has options
	// that leave files out. Nil: the command runs unchanged.
	Argv []string
	// Elsewhere: the command runs at a sidecar, whose folders may not be visible to the supervisor.
	Elsewhere bool
	// Outside: the call leaves the session's roots, at a handler that opens the file only if a person or a rule named that file. An earlier
	// answer counts for the call only if a diff showed the file.
	Outside bool
	// Terminals are the terminals that a tool call shows. Only Reported uses them.
	Terminals []string
	// Covered, for process actions: the agent's own files are changed, no session is open, or an answer about a
	// command's line covers what a process of the command does.
	Covered bool
	// InCommand, for process actions: a process of a command that was allowed by its line or by a person changes an
	// ordinary file in the session's roots. If no rule matches and the policy has no rules for processes, the change is
	// allowed.
	InCommand bool
	// Inner, for process actions, is another description of the action, so that an answer about Inner is an answer about
	// the action: the commands in the line of a shell, or the file that a temporary file is about to replace. Nil: none.
	Inner *permissionv1.Action
	// Proxied, for process actions: the action connects to a machine through acphost's proxy. Machines are those that
	// the agent is known to connect to.
	Proxied  bool
	Machines hosts.Known
	// Content, for process actions, is a digest of the content that a file gets; empty: the content is not decided. A
	// person's answer about one content does not apply to another one.
	Content string
	// Closed, for process actions, is the reason why the action is denied whatever a policy says; empty: a policy decides.
	Closed string
	// Kernel, for Reported: the sandbox observes all process actions of the agent, except reads.
	Kernel bool

	ledger *ledger // the decisions of the turn, for Reported; nil: the turn's current ones
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

// Decision is the result of Decide. The caller passes each decision that it acts on to Record.
type Decision struct {
	Verdict permissionv1.Verdict
	// Rule is the rule that decided; empty: none.
	Rule string
	// Reason is the reason in words, for the person and the agent.
	Reason string
	// Detail says how the policy came to the decision (DecideResponse.detail), for a person who wants to know more. Empty: nothing more is
	// known.
	Detail string
	// Grantable, for Ask: an answer may be remembered.
	Grantable bool
	// Unattended, for Ask, is Allow or Deny: the verdict if no person is there to answer.
	Unattended permissionv1.Verdict
	// By says who decided: one of the By constants.
	By string
	// Shown is the content that the agent's words in the question show. An answer lets a write call pass only if the write leaves the file
	// as in Shown.Edits. On a surface that shows only the agent's words, an answer allows and remembers only actions that Shown covers. The
	// caller sets it before Record.
	Shown Seen
	// Before, for a write that passes because of an earlier answer, is the SHA-256 of the file that the question's diff was made from. If
	// the file has changed since, the caller decides again without Written, because the user has not seen the change that the write would
	// undo. Nil otherwise.
	Before *[sha256.Size]byte
	// Said is the agent's text in the permission request that is deferred to a call. The caller sets it before it records a request with
	// Outcome.Left; Decide sets it for the call. Empty: no text.
	Said string
	// Always and Never, for Ask about calls and process actions, are what a permanent answer would cover. An offer without text must not be
	// shown.
	Always, Never grant.Offer

	id      string
	request Request
	digest  string
	placed  ruleAt
	plugin  string
	grants  []*supervisorv1.Grant
	latency time.Duration
	active  bool // a policy applies, so the decision is recorded
	named   bool // it is allowed only because of the tool's name
	person  bool // for ByEarlier: a person gave that answer
	tried   bool // for ByEarlier: the answer is about the last try
	names   bool // a rule of the policy names the paths
	reused  bool // the policies gave this answer about an earlier action
	narrow  bool // git must show files in the session's roots alone
	special bool // a rule names the addresses, or the agent needs the machine
	// processes: rules for processes decided, so the verdict holds for all processes. contained: a command's line was not judged, because
	// what its processes do is decided.
	processes, contained bool

	kept      []string // globs of files below folders that the command must not read, unless the user knows that it does
	readsKept bool     // Reason says that the command reads such files; for ByEarlier: the person who answered has read that
	argv      []string // see Argv

	left *leftRequest // the request that was deferred to this call; nil: none

	reuse *permissionv1.Reuse // other actions that the policies' answers also cover; nil: none
}

// ruleAt is the place of a rule in a policy. If acphost itself decides later, the rule differs, and the place does not apply.
type ruleAt struct{ rule, place string }

// ID returns the id of the decision in the audit.
func (d *Decision) ID() string { return d.id }

// Argv returns the program to start, with its arguments, instead of Request.Argv. It leaves out the files that the policy forbids. Nil: the
// caller starts Request.Argv.
func (d *Decision) Argv() []string { return d.argv }

// Active reports whether a policy applies; false: none was chosen.
func (d *Decision) Active() bool { return d.active }

// Contained reports whether a command is allowed without regard to its line, because what its processes do is decided when they do it.
func (d *Decision) Contained() bool {
	return d.contained && d.Verdict == Allow && (d.By == ByPolicy || d.By == ByEarlier && !d.person)
}

// Action returns the action that was decided. The caller must not change it.
func (d *Decision) Action() *permissionv1.Action { return d.request.Action }

// What describes the action in words: "write /w/a". The text is safe and bounded (intent.Summary).
func (d *Decision) What() string { return intent.Summary(d.request.Action) }

// Denial describes what was denied, why, and by which rule.
func (d *Decision) Denial() string { return d.What() + ": " + d.Why() }

// HowToAsk returns the end of an agent's text about a denial, with a separator: how to go on. Empty: a user has rejected the action, or the
// reason says it.
func (d *Decision) HowToAsk() string {
	if d.Verdict != Deny || d.By != ByPolicy && d.By != ByAcphost || strings.Contains(d.Reason, "ask the user") {
		return ""
	}
	return "; " + reason.HowToAsk
}

// Why returns the reason and the rule.
func (d *Decision) Why() string { return withRule(d.Reason, d.Rule) }

// withRule appends the rule to the reason, unless the reason names the rule already: permd's reason for a rule without one is "denied by
// rule x", and the joined reason of several rules names each of them.
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

// Active reports whether a policy applies to sessions with the given roots, so that calls are decided. A root that has had a rule file
// stays subject to rules, so an agent gains nothing by removing the file.
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

// Decides reports whether calls of a method are decided in a session with the given roots.
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

// Decide decides about an action. The verdict Ask means that a person must be asked. It returns within DecideTimeout, or with ctx's error
// once ctx is done.
func (g *Gate) Decide(ctx context.Context, r Request) (*Decision, error) {
	started := g.opts.Now()
	d := &Decision{id: jsonrpc.NewID(), request: r, By: ByAcphost, active: g.Active(r.Action.GetRoots())}
	if err := g.decide(ctx, r, d); err != nil {
		return nil, err
	}
	if own := gitUndecided(r.Action, d.processes); own != nil && d.Verdict != Deny {
		d.Verdict, d.By, d.Rule, d.Reason, d.Detail, d.placed = own.Verdict, ByAcphost, own.Rule, own.Reason, "", ruleAt{}
	}
	g.applyOwnRules(r, d)
	g.matchDeferred(ctx, r, d)
	switch {
	case d.Verdict == Ask && r.Action.GetDoor() == permissionv1.Door_DOOR_KERNEL:
		g.decideAsked(r, d)
	case d.Verdict == Ask:
		g.applyGrants(r, d)
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
		ruling = rulingAheadOfPolicies(r)
	}
	if ruling != nil {
		d.Verdict, d.Rule, d.Reason = ruling.Verdict, ruling.Rule, ruling.Reason
		return nil
	}
	if a.GetDoor() == permissionv1.Door_DOOR_CALL && !r.GivenUp && g.answeredEarlier(r, d) {
		return g.leaveOutAnswered(ctx, r, d)
	}
	if len(g.opts.Chain) == 0 {
		d.Verdict, d.Reason = Ask, reason.ToClient.String()
		return nil
	}
	said, err := g.ask(ctx, a)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !d.active:
		d.Verdict, d.Reason = Ask, reason.NoPolicy.String()
	case err != nil:
		d.Verdict, d.Reason = Deny, noDecisionReason(err)
	default:
		d.By = ByPolicy
		d.Verdict, d.Rule, d.Reason, d.Detail = said.Verdict, said.Rule, said.Reason, said.Detail
		d.Grantable, d.Unattended, d.placed = said.Grantable, said.Unattended, ruleAt{said.Rule, said.Place}
		d.digest, d.plugin, d.names, d.reused = said.PolicyDigest, said.plugin, said.NamesPaths, said.reused && said.Verdict == Allow
		d.reuse, d.processes, d.contained, d.narrow = said.holds, said.Processes, said.Contained, said.OnlyInRoots
		g.leaveOut(r, d, said.GetLeaveOut())
		applyMachineRuling(r, d, said.DecideResponse)
	}
	return nil
}

// needsName reports whether an action is allowed only because of its tool's name. Only the agent knows whether the name is true. So the
// name is enough for an action that the agent performs itself, and never for a call.
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

// applyGrants applies a remembered answer if the policy permits that.
func (g *Gate) applyGrants(r Request, d *Decision) {
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
		d.Verdict, d.By, d.grants, d.Reason = Deny, ByGrant, m.Grants, reason.RejectedAlways.String()
	default:
		if isDone(r.Action) {
			d.Always, d.Never = grant.Widest(r.Action, r.where()), grant.Refusal(r.Action, r.where())
		}
	}
}

// VerdictName returns the name of a verdict in rules; an unknown verdict is "deny".
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
