package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/leaveout"
)

// leaveOut makes sure that a command, or a search of the agent's, which a policy allows reads none of the files that the policy wants left out: there are
// none, or its programs are told to leave them out. Otherwise a person is asked.
func (g *Gate) leaveOut(r Request, d *Decision, globs []string) {
	if d.Verdict != Allow || len(globs) == 0 {
		return
	}
	finder := leaveout.New(globs)
	var walking []string
	tellable := r.LeaveOut != nil
	for _, sub := range r.Action.GetCommand().GetSubCommands() {
		through := slices.DeleteFunc(slices.Clone(sub.GetFacts().GetFiles()), func(f *permissionv1.FileUse) bool {
			return !f.GetRecursive() || f.GetMetadataOnly()
		})
		for _, f := range through {
			finder.Below(cmp.Or(f.GetResolvedPath(), f.GetPath()))
		}
		if len(through) > 0 && len(sub.GetArgv()) > 0 {
			walking = append(walking, sub.GetArgv()[0])
			// Behind a "--" that the line has as a variable or a pattern, no option would be one.
			tellable = tellable && (sub.GetWritten() == "" || !slices.Contains(sub.GetArgv(), "--"))
		}
	}
	for _, p := range r.Action.GetPaths() {
		if p.GetRecursive() {
			finder.Below(cmp.Or(p.GetResolvedPath(), p.GetPath()))
		}
	}
	found := finder.Found()
	switch {
	case !found.Any():
	case tellable && r.LeaveOut(walking, found):
		d.Reason = strings.TrimPrefix(d.Reason+" Left out: "+listed(found)+".", " ")
	default:
		d.Verdict, d.Rule, d.By, d.Grantable = Ask, RuleLeaveOut, ByPolicy, false
		d.Reason = fmt.Sprintf("it walks through a folder with %s, which the policy keeps from it, and cannot be told to leave that out", listed(found))
	}
}

// listed names what was found, in short.
func listed(found leaveout.Found) string {
	const most = 3
	var names []string
	for _, n := range found.Names[:min(most, len(found.Names))] {
		names = append(names, intent.Excerpt(n))
	}
	text := strings.Join(names, ", ")
	switch more := len(found.Names) - most; {
	case len(names) == 0:
		return "more files than are looked at"
	case more > 0 && !found.Incomplete:
		return fmt.Sprintf("%s and %d more", text, more)
	case found.Incomplete:
		return text + " and whatever else is named like a file of its rules"
	}
	return text
}
