package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/reason"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Part is one of several rule files that apply together.
type Part struct {
	Policy *Policy
	// Name is the file's name, for people.
	Name string
	// Layer is the owner of the file. An untrusted workspace's file may only tighten: its allow rules do not count.
	Layer permissionv1.Layer
}

func (p Part) loosens() bool { return p.Layer != permissionv1.Layer_LAYER_WORKSPACE }

// NoPolicy is the rule that allows a call if no policy is configured and no rule of a workspace matches.
const NoPolicy = "acphost/no-policy"

// Decide decides on an action by the rules of all parts: of the matching rules, the strictest applies. If none matches,
// the verdict is ask; but if no part may loosen, no policy is configured, and a call of an agent is allowed. The result
// is deterministic for the same parts and action. A nil action is an unknown one.
func Decide(parts []Part, of *permissionv1.Action) *permissionv1.DecideResponse {
	a := newAction(of)
	d := decideTogether(parts, a)
	d.Processes = a.process != "" && slices.ContainsFunc(parts, func(p Part) bool { return p.loosens() && p.Policy.processes })
	if a.process == processRead && !d.Processes && d.Verdict == ask {
		d = &permissionv1.DecideResponse{Verdict: allow, Reason: reason.ReadsByDenyOnly.String()}
	}
	d.PolicyDigest = digestOf(parts)
	d.Contained = d.Verdict == allow && allowsRegardless(parts, a)
	if d.Verdict == ask {
		keepDenied(parts, a, d)
		if d.Unattended == permissionv1.Verdict_VERDICT_UNSPECIFIED {
			d.Unattended = unattendedOf(parts)
		}
		if why := notUnattended(parts, a, d); d.Unattended == allow && why != "" {
			d.Unattended = deny
			addDetail(d, "denied without an answer: "+why)
		}
	}
	return d
}

// keepDenied adds the files that the command must leave out because of deny rules, whatever the answer to the question
// is. If there are more globs than a decision may hold, the action is denied if it is not answered, and the answer is
// not remembered.
func keepDenied(parts []Part, a *action, d *permissionv1.DecideResponse) {
	globs := leaveOut(parts, a, deny)
	if len(globs) <= maxLeftOut {
		d.LeaveOut = globs
		return
	}
	d.Unattended, d.Grantable = deny, false
	addDetail(d, tooManyGlobs(globs))
}

func tooManyGlobs(globs []string) string {
	return fmt.Sprintf("the command reads whole folders, in which rules forbid files by %d globs; it can leave out those of %d", len(globs), maxLeftOut)
}

// addDetail appends to the detail of a decision.
func addDetail(d *permissionv1.DecideResponse, detail string) {
	if detail != "" && d.Detail != "" {
		d.Detail += "; "
	}
	d.Detail += detail
}

// notUnattended returns why an action that is asked about is denied without an answer, although the rule files contain
// "unattended: allow": a deny rule, or the protection of acphost's own files, may match, which only a person can
// decide. Empty: no reason.
func notUnattended(parts []Part, a *action, d *permissionv1.DecideResponse) string {
	if d.Rule == Protected {
		return "the action may use files of acphost"
	}
	for _, p := range parts {
		for _, r := range p.Policy.deny {
			if r.mayMatchUnseen(a) {
				return fmt.Sprintf("rule %s may deny what it does", r.id)
			}
		}
	}
	return ""
}

// mayMatchUnseen reports whether a deny rule may match an action, including unknown effects of its commands: a program
// with unknown effects, or one that runs code that is not in the line, may do what the rule names.
func (r *rule) mayMatchUnseen(a *action) bool {
	if r.matches(a) != no {
		return true
	}
	return a.process == "" && a.doesUnseen() && a.GetKind() != "" && (r.on == nil || slices.ContainsFunc(r.on, mayBeDone)) &&
		ofAgent.holds(r, a) != no && ofMode.holds(r, a) != no && r.tools == nil
}

// mayBeDone reports whether a command may have the effect of an action of the kinds.
func mayBeDone(g kindGlob) bool {
	return slices.ContainsFunc([]string{"fs.read", "fs.write", "fs.list", "terminal.create", "tool.read", "tool.edit", "tool.delete",
		"tool.move", "tool.search", "tool.execute", "net.connect"}, g.matches)
}

// doesUnseen reports whether the action runs a command with effects that its line does not show.
func (p *action) doesUnseen() bool {
	if p.unseen() != no {
		return true
	}
	return slices.ContainsFunc(p.GetCommand().GetSubCommands(), func(sub *permissionv1.SubCommand) bool { return sub.GetFacts().GetRunsCode() })
}

// decideTogether decides by the protection of acphost's own files, then by the rules. If a line cannot be read in full,
// it is not known where its paths lead, so that each may lead to such a file. The rules then give the reason to ask,
// and the protection only keeps the answer from being anything else.
func decideTogether(parts []Part, a *action) *permissionv1.DecideResponse {
	regardless := allowsRegardless(parts, a)
	var suspected *permissionv1.DecideResponse
	for _, p := range parts {
		switch d := p.Policy.guard(a); {
		case d == nil, (regardless || a.process == processStart) && d.GetVerdict() != deny:
		case d.GetVerdict() == deny || !a.unclear:
			return d
		default:
			suspected = d
		}
	}
	d := decideByRules(parts, a, regardless)
	switch {
	case suspected == nil:
	case d.GetVerdict() == allow:
		return suspected
	case d.GetVerdict() == ask:
		d.Grantable, d.Unattended = false, deny
	}
	return d
}

// decideByRules decides by the rules. regardless: an allow rule allows the command whatever its line.
func decideByRules(parts []Part, a *action, regardless bool) *permissionv1.DecideResponse {
	if a.GetKind() == "tool.switch_mode" {
		// A mode changes the agent's later behaviour. Rules on actions cannot judge that.
		return &permissionv1.DecideResponse{Verdict: ask, Reason: reason.ModeChange.String()}
	}
	denied, suspected := denials(parts, a)
	if len(denied) > 0 {
		return decidedBy(parts, deny, denied)
	}
	asked := asks(parts, a)
	if regardless {
		suspected = nil
		asked = slices.DeleteFunc(asked, func(f finding) bool { return f.sure != yes })
	}
	if suspected != nil {
		return decidedBy(parts, ask, append([]finding{*suspected}, asked...))
	}
	if len(asked) > 0 {
		d := decidedBy(parts, ask, asked)
		d.Grantable = asked[0].rule.grantable && isClear(a)
		d.NamesPaths = a.isSocket() && slices.ContainsFunc(asked, func(f finding) bool { return f.rule.paths != nil })
		return d
	}
	if by := allowedBy(parts, a); by != nil {
		d := allowing(parts, a, by.names(), by.reason(a))
		if d.GetRule() != "" {
			d.Place = placeOf(parts, by.rules...)
		}
		d.NamesPaths = d.GetVerdict() == allow && len(by.rules) == 1 && by.rules[0].namesPaths(a)
		d.NamesAddresses = d.GetVerdict() == allow && a.to != nil // otherwise the rule does not match
		d.OnlyInRoots = d.GetVerdict() == allow && !regardless && by.byCommand() && a.showsBeyond()
		return d
	}
	chosen := slices.ContainsFunc(parts, func(p Part) bool { return p.loosens() && p.Policy.digest != "" })
	switch but := allowedButForDoubts(parts, a); {
	case but != nil:
		return &permissionv1.DecideResponse{Verdict: ask, Grantable: isClear(a), Reason: a.doubtReason(but.taking),
			Detail: fmt.Sprintf("rule %s would allow this, but %s", but.names(), a.whyDoubtful(but.taking))}
	case chosen:
		return unmatched(parts, a)
	case a.GetDoor() == permissionv1.Door_DOOR_CALL || a.GetDoor() == permissionv1.Door_DOOR_KERNEL:
		return allowing(parts, a, NoPolicy, reason.NoPolicy.String())
	}
	return &permissionv1.DecideResponse{Verdict: ask, Reason: reason.NoPolicy.String(), Grantable: true}
}

// decidedBy returns the decision by deny or ask rules; the first one decides.
func decidedBy(parts []Part, verdict permissionv1.Verdict, found []finding) *permissionv1.DecideResponse {
	first := found[0].rule
	d := &permissionv1.DecideResponse{Verdict: verdict, Rule: first.id, Place: placeOf(parts, first)}
	d.Reason, d.Detail = reasonOf(found)
	return d
}

// unmatched returns the decision about an action that no rule matches.
func unmatched(parts []Part, a *action) *permissionv1.DecideResponse {
	d := &permissionv1.DecideResponse{Verdict: ask, Grantable: isClear(a)}
	if why := unknownReason(a); why != "" && a.command {
		d.Reason, d.Detail = why, "no rule can allow this: "+unseen(a)
		return d
	}
	some := uncovered(parts, a)
	why := unmatchedReason(a, some)
	d.Reason, d.Detail = naming(some, why.String()), notTaken(parts, a)
	return d
}

// unmatchedReason returns the reason to ask about an action that no rule matches. some are the parts that no rule
// covers; none: all.
func unmatchedReason(a *action, some []string) reason.Reason {
	outside := func(p pathAccess) bool { return !p.inside && (len(some) == 0 || slices.Contains(some, p.shown())) }
	switch {
	case a.GetKind() == "net.connect" && a.to == nil:
		return reason.HostUnknown
	case a.GetKind() == "net.connect":
		return reason.HostNotListed
	case a.runs() && slices.ContainsFunc(a.uses, func(u fileUse) bool { return outside(u.pathAccess) && u.asked != "/dev/null" }):
		return reason.CommandOutside
	case a.runs():
		return reason.CommandNotAllowed
	case a.vague && len(a.paths) > 0:
		return reason.PathUnknown
	case slices.ContainsFunc(a.paths, outside):
		return reason.OutsideWorkspace
	}
	return reason.ActionNotAllowed
}

// isSocket reports whether the action connects to a unix socket with a path.
func (p *action) isSocket() bool {
	return p.GetKind() == "net.connect" && p.GetEndpoint() == nil && len(p.GetPaths()) > 0
}

// allowsRegardless reports whether an allow rule allows a command whatever its line. It then ignores rules that may
// match the line, which is not certain: they decide about the actions of its processes.
func allowsRegardless(parts []Part, a *action) bool {
	return slices.ContainsFunc(parts, func(p Part) bool {
		return p.loosens() && p.Policy.digest != "" && slices.ContainsFunc(p.Policy.allow, func(r *rule) bool { return r.regardless(a) && r.matches(a) == yes })
	})
}

// allowing returns the verdict allow, with the files that the command must leave out because of deny and ask rules.
// Where reads are decided when they happen, it need not leave out any.
func allowing(parts []Part, a *action, rule, reason string) *permissionv1.DecideResponse {
	if a.process == processStart || slices.Contains(a.GetWalls(), permissionv1.Wall_WALL_READS) {
		return &permissionv1.DecideResponse{Verdict: allow, Rule: rule, Reason: reason}
	}
	return leavingOut(&permissionv1.DecideResponse{Verdict: allow, Rule: rule, Reason: reason}, leaveOut(parts, a, ask))
}

// leavingOut sets the globs that an allowed command leaves out. If there are more than a decision may hold, the verdict
// is ask, and deny without an answer, because some of the globs come from deny rules.
func leavingOut(d *permissionv1.DecideResponse, globs []string) *permissionv1.DecideResponse {
	if len(globs) > maxLeftOut {
		return &permissionv1.DecideResponse{Verdict: ask, Unattended: deny, PolicyDigest: d.GetPolicyDigest(),
			Reason: reason.TooManyGlobs.String(), Detail: tooManyGlobs(globs)}
	}
	d.LeaveOut = globs
	return d
}

// denials returns the deny rules that match for certain, and the first that may match.
func denials(parts []Part, a *action) (denied []finding, suspected *finding) {
	for _, p := range parts {
		for _, r := range p.Policy.deny {
			switch sure := r.matches(a); {
			case sure == yes:
				denied = append(denied, r.finding(a, yes))
			case sure == maybe && suspected == nil:
				suspected = new(r.finding(a, maybe))
			}
		}
	}
	return denied, suspected
}

// asks returns the ask rules that match. The first one decides: if there is one that no remembered answer satisfies, it
// comes first.
func asks(parts []Part, a *action) []finding {
	var found []finding
	for _, p := range parts {
		for _, r := range p.Policy.ask {
			if sure := r.matches(a); sure != no {
				found = append(found, r.finding(a, sure))
			}
		}
	}
	if i := slices.IndexFunc(found, func(f finding) bool { return !f.rule.grantable }); i > 0 {
		decides := found[i]
		found = slices.Insert(slices.Delete(found, i, i+1), 0, decides)
	}
	return found
}

// maxPlace limits the place of a decision's rules, in characters.
const maxPlace = 512

// placeOf returns the places of rules: "FILE:LINE" for each, separated by ", ".
func placeOf(parts []Part, rules ...*rule) string {
	var places []string
	for _, r := range rules {
		for _, p := range parts {
			if slices.Contains(p.Policy.deny, r) || slices.Contains(p.Policy.ask, r) || slices.Contains(p.Policy.allow, r) {
				places = append(places, p.Name+":"+strconv.FormatUint(uint64(r.line), 10))
				break
			}
		}
	}
	return cut(strings.Join(places, ", "), maxPlace-1)
}

// digestOf returns the digest of the only rule file, or of the digests of all.
func digestOf(parts []Part) string {
	sum, n, last := sha256.New(), 0, ""
	for _, p := range parts {
		if p.Policy.digest == "" {
			continue
		}
		n, last = n+1, p.Policy.digest
		_, _ = fmt.Fprintf(sum, "%s %t\n", p.Policy.digest, p.loosens())
	}
	if n <= 1 {
		return last
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// unattendedOf returns the verdict without an answer: allow if every file that sets it has allow.
func unattendedOf(parts []Part) permissionv1.Verdict {
	verdict := permissionv1.Verdict_VERDICT_UNSPECIFIED
	for _, p := range parts {
		if p.Policy.digest == "" || !p.loosens() && p.Policy.unattended != deny {
			continue
		}
		if p.Policy.unattended != allow {
			return deny
		}
		verdict = allow
	}
	return verdict
}

// Stricter returns the stricter of two decisions, the first of two equal ones. The result leaves out the files of both,
// and is for all processes if one of them is. If both allow, NamesPaths and NamesAddresses hold only if they hold for
// both, and OnlyInRoots if it holds for one. If both ask, NamesPaths holds if it holds for one.
func Stricter(a, b *permissionv1.DecideResponse) *permissionv1.DecideResponse {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	d := stricter(a, b)
	bothAsk := a.GetVerdict() == ask && b.GetVerdict() == ask && d.GetVerdict() == ask
	if bothAsk && a.GetNamesPaths() != b.GetNamesPaths() {
		d = proto.CloneOf(d)
		d.NamesPaths = true
	}
	if processes := a.GetProcesses() || b.GetProcesses(); d.GetProcesses() != processes {
		d = proto.CloneOf(d)
		d.Processes = processes
	}
	return d
}

func stricter(a, b *permissionv1.DecideResponse) *permissionv1.DecideResponse {
	switch {
	case a.GetVerdict() == allow && b.GetVerdict() == allow:
		d := leavingOut(proto.CloneOf(a), together(a.GetLeaveOut(), b.GetLeaveOut()))
		d.NamesPaths = a.GetNamesPaths() && b.GetNamesPaths() && d.GetVerdict() == allow
		d.NamesAddresses = a.GetNamesAddresses() && b.GetNamesAddresses() && d.GetVerdict() == allow
		d.Contained = a.GetContained() || b.GetContained()
		d.OnlyInRoots = (a.GetOnlyInRoots() || b.GetOnlyInRoots()) && d.GetVerdict() == allow
		return d
	case rank(a) < rank(b):
		a, b = b, a
	}
	if a.GetVerdict() == ask && len(b.GetLeaveOut()) > 0 {
		a = leavingOut(proto.CloneOf(a), together(a.GetLeaveOut(), b.GetLeaveOut()))
	}
	return a
}

// rank orders decisions by strictness. Of two with the verdict ask, one that a remembered answer does not satisfy is
// stricter.
func rank(d *permissionv1.DecideResponse) int {
	switch {
	case d.GetVerdict() == allow:
		return 0
	case d.GetVerdict() == ask && d.GetGrantable():
		return 1
	case d.GetVerdict() == ask:
		return 2
	}
	return 3
}

// Digest returns the digest of the rule file, "sha256:" and lower-case hexadecimal; empty without a file.
func (p *Policy) Digest() string { return p.digest }
