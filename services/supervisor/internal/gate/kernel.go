package gate

import (
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/panics"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// maxTallies bounds what is counted apart in one turn.
const maxTallies = 1024

// mostUncounted bounds the records of counts that wait for room.
const mostUncounted = 4096

// kernelDoor is what the gate keeps for door three. The Gate's mu guards its fields but the last.
type kernelDoor struct {
	// tried are the user's answers about what was refused when it was tried, by the session's scope, oldest first.
	tried map[string][]*triedAnswer
	// tallies count what was allowed, by the session's scope.
	tallies map[string]map[tallyKey]*tally
	// uncounted are records of counts for which there was no room, oldest first.
	uncounted []*supervisorv1.AuditRecord
	// flushing waits for the records of counts.
	flushing sync.WaitGroup
}

// triedAnswer is an answer about something that an agent has tried. Nothing could wait for the answer, so it counts for the next
// try.
type triedAnswer struct {
	key     string
	allowed bool
	at      time.Time
	used    bool
	turn    uint64 // in which it was used
}

// tallyKey is what records of allowances have in common.
type tallyKey struct {
	// started is the program that the allowance is about, if it is about starting one.
	kind, program, started, folder, rule, by string
	turn                                     uint64
}

// tally counts allowances that have no record of their own.
type tally struct {
	record *supervisorv1.AuditRecord
	more   uint64
	leased Counter // of those that were allowed without the Gate; nil: none were
}

// tallyOf is where a decision is counted.
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

// kernelAsks is for an action at door three that the user has to be asked about: it looks for an answer that the user, or the
// policy at door one, has given.
func (g *Gate) kernelAsks(r Request, d *Decision) {
	if !d.active {
		g.machineUndecided(r, d)
		return
	}
	reason := d.Reason
	g.remembered(r, d)
	switch {
	case d.Verdict != Ask:
	case r.Lenient:
		d.Verdict, d.By, d.Reason, d.Rule = Allow, ByCommand, "", "" // no rule allows it: the one that asks does not count
	case !r.GivenUp && (g.answeredEarlier(r, d) || g.answeredTry(r, d)):
		if d.Verdict == Allow {
			d.Rule = ""
		}
	default:
		d.Reason = reason
	}
}

// answeredTry decides by the answer that the user gave about the last try. An answer about a command counts once; one about a
// file for the turn in which it is used first. A refusal holds as long as an answer can be used.
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
			d.Verdict, d.By, d.Reason = Deny, ByEarlier, "a person refused just this a moment ago"
			return true
		}
		if t.used && (r.Action.GetCommand() != nil || t.turn != r.Turn) {
			return false
		}
		t.used, t.turn = true, r.Turn
		d.Verdict, d.By, d.Reason, d.person, d.tried = Allow, ByEarlier, "a person allowed it after the last try", true, true
		return true
	}
	return false
}

// tryKey tells what a process tries from what it may try else: by the command or the file, without what the agent
// adds to it, which differs from one try to the next, and by the variables that a command is given.
func tryKey(r Request) string {
	return tryKeyOf(r, reportKey)
}

// tryKeyOf is tryKey with a key of the action itself.
func tryKeyOf(r Request, of func(*permissionv1.Action) string) string {
	a, key := r.Action, ""
	if r.Inner != nil {
		a, key = r.Inner, "within "
	}
	if r.Apart {
		key += "apart "
	}
	key += of(a)
	for _, entry := range a.GetCommand().GetEnv() {
		key += "\x00" + entry
	}
	return key
}

// Key identifies what a decision is about: decisions of one session have the same key if and only if their actions are the same
// in all that matters (the command with its folder and variables, the files, the machine), however long those are. In which tool
// call an action is does not matter. The key is opaque, and no text for people.
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
		part(a.GetTitle()) // nothing else says what it is about
	}
	return string(h.Sum(nil))
}

// DenialKey identifies a denial: what is denied (Key), by which rule and why.
func (d *Decision) DenialKey() string {
	h := sha256.New()
	for _, text := range []string{d.Key(), d.Rule, d.Why()} {
		fmt.Fprintf(h, "%d %s", len(text), text)
	}
	return string(h.Sum(nil))
}

// tried keeps an answer for the next try.
func (g *Gate) tried(d *Decision, o Outcome, allowed bool) {
	r := d.request
	answered := o.Option != "" || o.By == ByTimeout && allowed // nobody was there, and the policy lets it pass then
	if r.Action.GetDoor() != permissionv1.Door_DOOR_KERNEL || d.Verdict != Ask || !answered || r.Scope == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	list := append(g.kernel.tried[r.Scope], &triedAnswer{key: tryKey(r), allowed: allowed, at: g.opts.Now()})
	g.kernel.tried[r.Scope] = list[max(0, len(list)-maxAnswers):]
}

// Tried reports whether a person has allowed just this after it was tried and refused.
func (d *Decision) Tried() bool { return d.Verdict == Allow && d.By == ByEarlier && d.tried }

// Settled reports whether a decision needs no other session's: a person has given it, about just this action.
func (d *Decision) Settled() bool {
	return d.Verdict == Allow && (d.By == ByEarlier && d.person || d.By == ByGrant)
}

// RecordAllowed records that a process of an agent's was allowed something at door three: the first time in a turn for
// a program, an operation, a folder and a rule with a record, and the others with a count when the turn is over. Of the
// programs that a program starts, each has a record: else the name of the first would stand for all. An error means
// that the action must be denied.
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
		return nil // another one came first, with a record of its own too, and may have counted others
	}
	g.kernel.tallies[scope][key] = &tally{record: g.recordOf(d, Outcome{Allowed: true, By: d.By}, nil)}
	return nil
}

// endTally records the counts of a session, in the background, with those that could not be recorded before; mu is
// held.
func (g *Gate) endTally(scope string) {
	ended := g.kernel.tallies[scope]
	delete(g.kernel.tallies, scope)
	if len(ended) > 0 {
		g.changed() // what is counted from now on is another count
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
		defer panics.Recover(g.opts.Logger, "recording how often an agent was allowed something")
		for i, rec := range records {
			if err := g.opts.Audit.Write(rec); err != nil {
				lost := g.countLater(records[i:])
				g.opts.Logger.Error("how often an agent was allowed something could not be recorded: it is tried again at the end of the next turn",
					"records", len(records)-i-lost, "lost", lost, "error", err)
				return
			}
		}
	})
}

// countLater keeps records of counts for the next time, and returns how many it cannot keep.
func (g *Gate) countLater(records []*supervisorv1.AuditRecord) (lost int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kernel.uncounted = append(g.kernel.uncounted, records...)
	lost = max(0, len(g.kernel.uncounted)-mostUncounted)
	g.kernel.uncounted = g.kernel.uncounted[:len(g.kernel.uncounted)-lost]
	return lost
}

// RefusedBySandbox is the decision for what the sandbox has refused, or would have refused if it did more than observe, without
// asking. It is to be recorded as others are.
func (g *Gate) RefusedBySandbox(r Request) *Decision {
	return &Decision{
		id: jsonrpc.NewID(), request: r, By: ByAcphost, active: g.Active(r.Action.GetRoots()), Verdict: Deny, Rule: RuleSandbox,
		Reason: "the sandbox could not decide about what the process does after it",
	}
}

// AllowMountPoint turns a decision by which a file could not be written into that an empty mount point for a sandbox
// of the agent's own is made there. It reports false, and changes nothing, if the file may be written; if no rule
// says so, but that it is acphost's own, that a person refused it, or that no policy could be asked.
func (g *Gate) AllowMountPoint(d *Decision) bool {
	if d.Verdict == Allow || d.By != ByPolicy && d.Rule != RuleGit {
		return false
	}
	d.Verdict, d.By, d.Rule, d.Reason = Allow, ByAcphost, RuleSandbox, "it is an empty mount point of a sandbox of the agent's own"
	d.placed = ruleAt{}
	return true
}

// ReportDone records what a process of an agent's has done while it was only observed.
func (g *Gate) ReportDone(d *Decision) {
	g.tally(func(c *supervisorv1.GateCounters) { c.Unasked[VerdictName(d.Verdict)]++ })
	if d.Verdict != Allow {
		g.report(d, outcomeUnasked)
	}
}

// Close records what is still to be counted, and waits for that.
func (g *Gate) Close() {
	g.mu.Lock()
	for scope := range g.kernel.tallies {
		g.endTally(scope)
	}
	g.mu.Unlock()
	g.kernel.flushing.Wait() // which may have left something over
	g.mu.Lock()
	g.endTally("")
	g.mu.Unlock()
	g.kernel.flushing.Wait()
}

// isDone reports whether what is decided is done once it is allowed, and not only answered: at doors two and three.
func isDone(a *permissionv1.Action) bool {
	return a.GetDoor() == permissionv1.Door_DOOR_CALL || a.GetDoor() == permissionv1.Door_DOOR_KERNEL
}
