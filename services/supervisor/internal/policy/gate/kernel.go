package gate

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/reason"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// maxTallies limits the separate counts of one turn.
const maxTallies = 1024

// maxUncounted limits the records of counts that could not be written.
const maxUncounted = 4096

// processActions is the Gate's state for process actions. The Gate's mu guards its fields except the last.
type processActions struct {
	// tried are the user's answers about refused actions, by the session's scope, oldest first.
	tried map[string][]*triedAnswer
	// tallies count allowed and repeatedly denied actions, by the session's scope.
	tallies map[string]map[tallyKey]*tally
	// uncounted are records of counts that could not be written, oldest first.
	uncounted []*supervisorv1.AuditRecord
	// flushing waits for the goroutines that write records of counts.
	flushing sync.WaitGroup
}

// triedAnswer is the user's answer about a refused process action. The action could not wait for the answer, so the answer applies to the
// next try.
type triedAnswer struct {
	key     string
	allowed bool
	at      time.Time
	used    bool
	turn    uint64 // turn of the first use
}

// tallyKey groups allowances, or denials of one action, that share one record.
type tallyKey struct {
	// started is the program that the action starts; empty: it starts none.
	kind, program, started, folder, rule, by string
	// denial is the DenialKey of a denied action, which needs no other field but turn; empty: the action is allowed.
	denial string
	turn   uint64
}

// tally counts decisions without a record of their own.
type tally struct {
	record *supervisorv1.AuditRecord
	more   uint64
	leased Counter // counts actions allowed by a Lease; nil: none
}

// tallyOf returns the key under which a decision is counted.
func tallyOf(d *Decision, program string) tallyKey {
	key := tallyKey{kind: d.request.Action.GetKind(), program: program, rule: d.Rule, by: d.By, turn: d.request.Turn}
	if c := d.request.Action.GetCommand(); c != nil {
		key.folder = c.GetCwd()
		if argv := c.GetArgv(); len(argv) > 0 {
			key.started = argv[0]
		}
	} else if to := machineText(d.request.Action); to != "" {
		key.folder = to
	} else if p := d.request.Action.GetPaths(); len(p) > 0 {
		key.folder = path.Dir(p[0].GetPath())
	}
	return key
}

// decideAsked handles Ask for a process action. It looks for an answer of the user to an earlier try, or for an answer to a permission
// request.
func (g *Gate) decideAsked(r Request, d *Decision) {
	if !d.active {
		g.decideMachineWithoutPolicy(r, d)
		return
	}
	why, detail := d.Reason, d.Detail
	g.applyGrants(r, d)
	switch {
	case d.Verdict != Ask:
	case r.Covered, r.denyOnly() && !d.processes && !(d.names && isSocket(r.Action)), r.InCommand && !d.processes && d.Rule == "":
		d.Verdict, d.By, d.Reason, d.Rule = Allow, ByCommand, "", "" // no rule allows it, and the rule that asks does not apply
	case !r.GivenUp && (g.answeredEarlier(r, d) || g.answeredTry(r, d)):
		if d.Verdict == Allow {
			d.Rule = ""
		}
	case isStart(r.Action) && d.Rule == "":
		d.Verdict, d.By, d.Reason, d.Detail = Allow, ByAcphost, reason.StartByEffects.String(), ""
	default:
		d.Reason, d.Detail = why, detail
	}
}

// denyOnly reports whether only deny rules apply to an action, if there are no rules for processes: reads, and
// connections that processes make themselves. Programs use many unix sockets (name services, the journal), so this
// includes sockets that no rule names by path.
func (r Request) denyOnly() bool {
	a := r.Action
	return a.GetDoor() == permissionv1.Door_DOOR_KERNEL && (a.GetKind() == "fs.read" || a.GetKind() == "net.connect" && !r.Proxied)
}

// isStart reports whether a process starts a program. If no rule asks about it, it is allowed, because the program's
// actions are decided.
func isStart(a *permissionv1.Action) bool {
	return a.GetDoor() == permissionv1.Door_DOOR_KERNEL && a.GetKind() == "terminal.create"
}

// AllowsCommand reports whether an answer or a rule allowed a command by its line, so that it covers the files that the
// line names.
func (d *Decision) AllowsCommand() bool {
	return d.Verdict == Allow && d.By != ByAcphost && d.By != ByCommand && !d.Contained() && d.request.Action.GetCommand() != nil
}

// answeredTry decides by the user's answer about the last try. An answer about a command counts once. An answer about a file counts for the
// turn in which it is used first. A refusal counts as long as an answer can be used.
func (g *Gate) answeredTry(r Request, d *Decision) bool {
	if r.Scope == "" {
		return false
	}
	key, now := tryKey(r), g.opts.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	list := slices.DeleteFunc(g.kernel.tried[r.Scope], func(t *triedAnswer) bool { return now.Sub(t.at) > answerLife })
	g.kernel.tried[r.Scope] = list
	for i := len(list) - 1; i >= 0; i-- {
		t := list[i]
		if t.key != key {
			continue
		}
		if !t.allowed {
			d.Verdict, d.By, d.Reason = Deny, ByEarlier, reason.RejectedBefore.String()
			return true
		}
		if t.used && (r.Action.GetCommand() != nil || t.turn != r.Turn) {
			return false
		}
		t.used, t.turn = true, r.Turn
		d.Verdict, d.By, d.Reason, d.person, d.tried = Allow, ByEarlier, reason.AllowedTry.String(), true, true
		return true
	}
	return false
}

// tryKey identifies a process action among the session's: by the command or the file, without the words that the agent adds, which differ
// from one try to the next, and by the variables of the command.
func tryKey(r Request) string {
	return tryKeyOf(r, reportKey)
}

// tryKeyOf is tryKey with a key function for the action.
func tryKeyOf(r Request, of func(*permissionv1.Action) string) string {
	a, key := r.Action, ""
	if r.Inner != nil {
		a, key = r.Inner, "within "
	}
	key += of(a) + r.Content
	for _, entry := range a.GetCommand().GetEnv() {
		key += "\x00" + entry
	}
	return key
}

// Key identifies the action of a decision. Decisions of one session have the same key if and only if their actions are the same in all that
// matters (the command with its folder and variables, the files, the machine), however long those are. The tool call of an action does not
// matter. The key is opaque, and not for people.
func (d *Decision) Key() string {
	r := d.request
	h := sha256.New()
	part := func(text string) { fmt.Fprintf(h, "%d %s", len(text), text) }
	part(r.Scope)
	part(tryKeyOf(r, actionKey))
	a := r.Action
	for _, text := range []string{a.GetKind(), a.GetUnparsed(), a.GetCommand().GetUnparsed()} {
		part(text)
	}
	for _, p := range a.GetPaths() {
		part(p.GetPath())
		part(p.GetResolvedPath())
	}
	if a.GetCommand() == nil && len(a.GetPaths()) == 0 {
		part(a.GetTitle()) // the action has no other description
	}
	return string(h.Sum(nil))
}

// DenialKey identifies a denial: the action (Key), the rule and the reason.
func (d *Decision) DenialKey() string {
	h := sha256.New()
	for _, text := range []string{d.Key(), d.Rule, d.Why()} {
		fmt.Fprintf(h, "%d %s", len(text), text)
	}
	return string(h.Sum(nil))
}

// tried stores an answer for the next try.
func (g *Gate) tried(d *Decision, o Outcome, allowed bool) {
	r := d.request
	answered := o.Option != "" || o.By == ByTimeout && allowed // no person answered in time, and the policy allows that case
	if !d.wasRefused() || !answered || r.Scope == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	list := append(g.kernel.tried[r.Scope], &triedAnswer{key: tryKey(r), allowed: allowed, at: g.opts.Now()})
	g.kernel.tried[r.Scope] = list[max(0, len(list)-maxAnswers):]
}

// wasRefused reports whether the action of a decision was refused while a person was asked about it: a process action
// cannot wait for the answer.
func (d *Decision) wasRefused() bool {
	return d.Verdict == Ask && d.request.Action.GetDoor() == permissionv1.Door_DOOR_KERNEL
}

// Tried reports whether a person allowed exactly this action after it was tried and refused.
func (d *Decision) Tried() bool { return d.Verdict == Allow && d.By == ByEarlier && d.tried }

// Settled reports whether a decision needs no decision of other sessions: a person allowed exactly this action.
func (d *Decision) Settled() bool {
	return d.Verdict == Allow && (d.By == ByEarlier && d.person || d.By == ByGrant)
}

// RecordAllowed records an allowed process action. The first action in a turn with the same program, operation, folder and rule gets a
// record; further ones are counted, and the count is recorded at the end of the turn. Each program that a program starts gets its own
// record, so that the name of the first does not represent others. An error means that the action must be denied.
func (g *Gate) RecordAllowed(d *Decision, program string) error {
	key := tallyOf(d, program)
	scope := d.request.Scope
	g.mu.Lock()
	if t := g.kernel.tallies[scope][key]; t != nil && (!d.Settled() || d.request.Proxied) {
		t.more++
		g.mu.Unlock()
		return nil
	}
	if len(g.kernel.tallies[scope]) >= maxTallies {
		g.endTally(scope)
	}
	g.mu.Unlock()
	if err := g.Record(d, Outcome{Allowed: true}); err != nil {
		return err
	}
	if !d.active {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.kernel.tallies[scope] == nil {
		g.kernel.tallies[scope] = map[tallyKey]*tally{}
	}
	if g.kernel.tallies[scope][key] != nil {
		return nil // a concurrent call has recorded its action, and may have counted others
	}
	g.kernel.tallies[scope][key] = &tally{record: g.recordOf(d, Outcome{Allowed: true, By: d.By}, nil)}
	return nil
}

// CountDenied counts a repeated denial, of which the first was recorded (Record). The count is recorded at the end of
// the turn. by is Outcome.By of the first.
func (g *Gate) CountDenied(d *Decision, by string) {
	if !d.active {
		return
	}
	scope, key := d.request.Scope, tallyKey{denial: d.DenialKey(), turn: d.request.Turn}
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.kernel.tallies[scope][key]; t != nil {
		t.more++
		return
	}
	if len(g.kernel.tallies[scope]) >= maxTallies {
		g.endTally(scope)
	}
	if g.kernel.tallies[scope] == nil {
		g.kernel.tallies[scope] = map[tallyKey]*tally{}
	}
	g.kernel.tallies[scope][key] = &tally{record: g.recordOf(d, Outcome{By: cmp.Or(by, d.By)}, nil), more: 1}
}

// endTally records the counts of a session in the background, with counts that could not be recorded before; mu is held.
func (g *Gate) endTally(scope string) {
	ended := g.kernel.tallies[scope]
	delete(g.kernel.tallies, scope)
	if len(ended) > 0 {
		g.changed() // new counts begin
	}
	for _, t := range ended {
		if t.leased != nil {
			t.more += t.leased.Take()
		}
	}
	if g.opts.Audit == nil {
		return
	}
	records := g.kernel.uncounted
	g.kernel.uncounted = nil
	for _, t := range ended {
		if t.more > 0 {
			rec := proto.CloneOf(t.record)
			rec.Time, rec.Repeats = timestamppb.New(g.opts.Now()), t.more
			records = append(records, rec)
		}
	}
	if len(records) == 0 {
		return
	}
	g.kernel.flushing.Go(func() {
		defer panics.Recover(g.opts.Logger, "recording the counts of repeated decisions")
		for i, rec := range records {
			if err := g.opts.Audit.Write(rec); err != nil {
				lost := g.keepUncounted(records[i:])
				g.opts.Logger.Error("counts of repeated decisions could not be recorded: "+
					"acphost tries again at the end of the next turn",
					"records", len(records)-i-lost, "lost", lost, "error", err)
				return
			}
		}
	})
}

// keepUncounted keeps records of counts for the next attempt, and returns the number of records that it drops.
func (g *Gate) keepUncounted(records []*supervisorv1.AuditRecord) (lost int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kernel.uncounted = append(g.kernel.uncounted, records...)
	lost = max(0, len(g.kernel.uncounted)-maxUncounted)
	g.kernel.uncounted = g.kernel.uncounted[:len(g.kernel.uncounted)-lost]
	return lost
}

// RefusedBySandbox returns the decision for an action that the sandbox refused without asking, or would have refused outside of observe
// mode. The caller records it like other decisions.
func (g *Gate) RefusedBySandbox(r Request) *Decision {
	return &Decision{
		id: jsonrpc.NewID(), request: r, By: ByAcphost, active: g.Active(r.Action.GetRoots()), Verdict: Deny, Rule: RuleSandbox,
		Reason: reason.NotAllowedInSandbox.String(),
	}
}

// AllowMountPoint changes a decision that denies writes to a file into one that allows an empty mount point there, for a sandbox of the
// agent. It returns false, and changes nothing, if the file may be written, or if the denial has another cause than a policy or RuleGit: a
// protected file, a person's refusal, or a policy that could not be asked.
func (g *Gate) AllowMountPoint(d *Decision) bool {
	if d.Verdict == Allow || d.By != ByPolicy && d.Rule != RuleGit {
		return false
	}
	d.Verdict, d.By, d.Rule, d.Reason = Allow, ByAcphost, RuleSandbox, reason.MountPoint.String()
	d.placed = ruleAt{}
	return true
}

// ReportDone records a process action that was only observed.
func (g *Gate) ReportDone(d *Decision) {
	g.tally(func(c *supervisorv1.GateCounters) { c.Unasked[VerdictName(d.Verdict)]++ })
	if d.Verdict != Allow {
		g.report(d, outcomeUnasked)
	}
}

// Close records the remaining counts, and waits for the writes.
func (g *Gate) Close() {
	g.mu.Lock()
	for scope := range g.kernel.tallies {
		g.endTally(scope)
	}
	g.mu.Unlock()
	g.kernel.flushing.Wait() // which may add to uncounted
	g.mu.Lock()
	g.endTally("")
	g.mu.Unlock()
	g.kernel.flushing.Wait()
}

// isDone reports whether an allowed action is performed at once, as calls and process actions are; a permission request is only answered.
func isDone(a *permissionv1.Action) bool {
	return a.GetDoor() == permissionv1.Door_DOOR_CALL || a.GetDoor() == permissionv1.Door_DOOR_KERNEL
}
