package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Part is one of several rule files that count together.
type Part struct {
	Policy *Policy
	// Name is the file's, for people.
	Name string
	// Layer says whose file it is. A workspace's that nobody trusts may only tighten: its allow rules do not count.
	Layer permissionv1.Layer
}

func (p Part) loosens() bool { return p.Layer != permissionv1.Layer_LAYER_WORKSPACE }

// NoPolicy is the rule by which a call passes where nobody has chosen a policy, and no rule of a workspace matches.
const NoPolicy = "acphost/no-policy"

// Decide judges an action by the rules of all parts: of those that match, the strictest counts. Where none does, a person
// is asked; but where there is no part that may loosen, nobody has chosen a policy, and a call that an agent makes passes.
// The same action gets the same answer from the same parts, always. A nil action is one of which nothing is known.
func Decide(parts []Part, of *permissionv1.Action) *permissionv1.DecideResponse {
	a := newAction(of)
	d := decideTogether(parts, a)
	d.PolicyDigest = digestOf(parts)
	if d.Verdict == ask {
		keepDenied(parts, a, d)
		if d.Unattended == permissionv1.Verdict_VERDICT_UNSPECIFIED {
			d.Unattended = unattendedOf(parts)
		}
		if why := notUnattended(parts, a, d); d.Unattended == allow && why != "" {
			d.Unattended = deny
			d.Reason += "; denied if no one answers: " + why
		}
	}
	return d
}

// keepDenied adds what the command has to leave out for the rules that deny, whatever the answer to the question is. If that is
// more than a decision holds, no answer denies.
func keepDenied(parts []Part, a *action, d *permissionv1.DecideResponse) {
	globs := leaveOut(parts, a, deny)
	if len(globs) <= maxLeftOut {
		d.LeaveOut = globs
		return
	}
	d.Unattended, d.Grantable = deny, false
	d.Reason += fmt.Sprintf("; the command reads whole folders, and deny rules keep files by %d globs from it: more than the %d that it can be told "+
		"to leave out", len(globs), maxLeftOut)
}

// notUnattended says why an action that is asked about is denied if no one answers, although the rule files say "unattended:
// allow": a deny rule, or the protection of acphost's own files, may match, and only a person can tell. Empty: there is no
// such reason.
func notUnattended(parts []Part, a *action, d *permissionv1.DecideResponse) string {
	if d.Rule == Protected {
		return "it may touch acphost's own files"
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

// mayMatchUnseen reports whether a deny rule may match an action, also by what its commands do out of sight: a program of
// which it is not known what it does, or that runs code that is not in the line, may do what the rule names.
func (r *rule) mayMatchUnseen(a *action) bool {
	if r.matches(a) != no {
		return true
	}
	return a.doesUnseen() && a.GetKind() != "" && (r.on == nil || slices.ContainsFunc(r.on, mayBeDone)) &&
		ofAgent.holds(r, a) != no && ofMode.holds(r, a) != no && r.tools == nil
}

// mayBeDone reports whether a command may do what actions of the kinds do.
func mayBeDone(g kindGlob) bool {
	return slices.ContainsFunc([]string{"fs.read", "fs.write", "fs.list", "terminal.create", "tool.read", "tool.edit", "tool.delete",
		"tool.move", "tool.search", "tool.execute", "net.connect"}, g.matches)
}

// doesUnseen reports whether the action runs a command that may do more than can be told from its line.
func (p *action) doesUnseen() bool {
	if p.unseen() != no {
		return true
	}
	return slices.ContainsFunc(p.GetCommand().GetSubCommands(), func(sub *permissionv1.SubCommand) bool { return sub.GetFacts().GetRunsCode() })
}

func decideTogether(parts []Part, a *action) *permissionv1.DecideResponse {
	for _, p := range parts {
		if d := p.Policy.guard(a); d != nil {
			return d
		}
	}
	if a.GetKind() == "tool.switch_mode" {
		// A mode changes what the agent does from here on. It is not an action that rules about actions could judge.
		return &permissionv1.DecideResponse{Verdict: ask, Reason: "a change of mode is for a person to decide"}
	}
	denied, suspected := denials(parts, a)
	if len(denied) > 0 {
		return &permissionv1.DecideResponse{Verdict: deny, Rule: denied[0].rule.id, Reason: reasonOf(denied), Place: placeOf(parts, denied[0].rule)}
	}
	asked := asks(parts, a)
	if suspected != nil {
		return &permissionv1.DecideResponse{Verdict: ask, Rule: suspected.rule.id, Reason: reasonOf(append([]finding{*suspected}, asked...)),
			Place: placeOf(parts, suspected.rule)}
	}
	if len(asked) > 0 {
		r := asked[0].rule
		return &permissionv1.DecideResponse{Verdict: ask, Rule: r.id, Reason: reasonOf(asked), Grantable: r.grantable && isClear(a), Place: placeOf(parts, r)}
	}
	if by := allowedBy(parts, a); by != nil {
		d := allowing(parts, a, by.names(), by.reason(a))
		if d.GetRule() != "" {
			d.Place = placeOf(parts, by.rules...)
		}
		d.NamesPaths = d.GetVerdict() == allow && len(by.rules) == 1 && by.rules[0].namesPaths(a)
		d.NamesAddresses = d.GetVerdict() == allow && a.to != nil // else the rule does not match
		return d
	}
	chosen := slices.ContainsFunc(parts, func(p Part) bool { return p.loosens() && p.Policy.digest != "" })
	switch but := allowedButForDoubts(parts, a); {
	case but != nil:
		return &permissionv1.DecideResponse{Verdict: ask, Grantable: isClear(a),
			Reason: fmt.Sprintf("rule %s would allow this, but %s", but.names(), a.whyDoubtful(but.taking))}
	case chosen:
		reason := naming(uncovered(parts, a), "no rule matches")
		if why := notTaken(parts, a); why != "" {
			reason += "; " + why
		}
		if why := unseen(a); why != "" && a.command {
			reason = "no rule can allow this: " + why
		}
		return &permissionv1.DecideResponse{Verdict: ask, Reason: reason, Grantable: isClear(a)}
	case a.GetDoor() == permissionv1.Door_DOOR_CALL || a.GetDoor() == permissionv1.Door_DOOR_KERNEL:
		return allowing(parts, a, NoPolicy, "no policy is set")
	}
	return &permissionv1.DecideResponse{Verdict: ask, Reason: "no policy is set", Grantable: true}
}

// allowing is the verdict allow, with what the command has to leave out for the rules that deny or ask.
func allowing(parts []Part, a *action, rule, reason string) *permissionv1.DecideResponse {
	return leavingOut(&permissionv1.DecideResponse{Verdict: allow, Rule: rule, Reason: reason}, leaveOut(parts, a, ask))
}

// leavingOut adds globs to what a decision to allow leaves out. If they are more than a decision holds, the user is asked, and
// no answer denies: deny rules are among those that the globs come from.
func leavingOut(d *permissionv1.DecideResponse, globs []string) *permissionv1.DecideResponse {
	if len(globs) > maxLeftOut {
		return &permissionv1.DecideResponse{Verdict: ask, Unattended: deny, PolicyDigest: d.GetPolicyDigest(), Reason: fmt.Sprintf("the command reads whole "+
			"folders, and the rules keep files by %d globs from it: more than the %d that a command can be told to leave out", len(globs), maxLeftOut)}
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

// asks returns the ask rules that match. The first one decides: of several, one that no remembered answer satisfies.
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

// maxPlace bounds the place of a decision's rules, in characters.
const maxPlace = 512

// placeOf is where rules stand: "FILE:LINE" of each, with ", " between them.
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

// digestOf is the digest of the one rule file, or of the digests of all.
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

// unattendedOf is what counts when nobody answers: allow if every file that says anything says so.
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

// Stricter returns the stricter of two decisions, the first of two that are alike. It leaves out what either does. Of two that
// allow, both must name the paths.
func Stricter(a, b *permissionv1.DecideResponse) *permissionv1.DecideResponse {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.GetVerdict() == allow && b.GetVerdict() == allow:
		d := leavingOut(proto.CloneOf(a), together(a.GetLeaveOut(), b.GetLeaveOut()))
		d.NamesPaths = a.GetNamesPaths() && b.GetNamesPaths() && d.GetVerdict() == allow
		d.NamesAddresses = a.GetNamesAddresses() && b.GetNamesAddresses() && d.GetVerdict() == allow
		return d
	case rank(a) < rank(b):
		a, b = b, a
	}
	if a.GetVerdict() == ask && len(b.GetLeaveOut()) > 0 {
		a = leavingOut(proto.CloneOf(a), together(a.GetLeaveOut(), b.GetLeaveOut()))
	}
	return a
}

// rank orders decisions by strictness; of two that ask, one that a remembered answer does not satisfy is stricter.
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

// Digest is the rule file's, "sha256:" and lower-case hexadecimal; empty for the policy of no file.
func (p *Policy) Digest() string { return p.digest }
