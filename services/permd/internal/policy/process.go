package policy

import (
	"slices"
	"strings"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// The kinds by which rules for processes match. The supervisor gives actions of processes the kinds of calls, so that
// policies that know no others decide about them, too.
const (
	processStart = "process.start"
	processRead  = "process.read"
	processWrite = "process.write"
	processGit   = "process.git"
)

// processKind returns the kind by which rules for processes match an action; empty: no process does it, or it has no
// such kind.
func processKind(a *permissionv1.Action) string {
	if a.GetDoor() != permissionv1.Door_DOOR_KERNEL {
		return ""
	}
	switch a.GetKind() {
	case "terminal.create":
		return processStart
	case "fs.read":
		return processRead
	case "fs.write":
		if len(a.GetPaths()) > 0 && !slices.ContainsFunc(a.GetPaths(), func(p *permissionv1.PathAccess) bool { return !p.GetGitState() }) {
			return processGit
		}
		return processWrite
	}
	return ""
}

// ofProcesses reports whether a pattern of kinds names a kind of process actions.
func (g kindGlob) ofProcesses() bool { return strings.HasPrefix(string(g), "process.") }

// decidesProcesses reports whether a rule file decides about processes by separate rules.
func decidesProcesses(rules []rule) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return slices.ContainsFunc(r.on, kindGlob.ofProcesses) })
}

// asProcess reports whether the rule matches an action by the kind of process actions.
func (r *rule) asProcess(a *action) bool { return r.processes && a.process != "" }

// kindOf returns the kind of an action by which the rule matches.
func (r *rule) kindOf(a *action) string {
	if r.asProcess(a) {
		return a.process
	}
	return a.GetKind()
}

// regardless reports whether an allow rule allows a command whatever its line. The actions of the command's processes
// are decided when they happen.
func (r *rule) regardless(a *action) bool {
	return r.effect == "allow" && a.command && !r.byCommand() && r.when == nil && r.paths == nil && r.hosts == nil && !r.redirectNone &&
		(r.asProcess(a) || len(r.contained) > 0)
}

// allowingRegardless are the criteria of a rule that allows commands regardless of their lines.
var allowingRegardless = []criterion{ofKind, ofWalls, ofAgent, ofMode, ofTool}

// wallNames are the names of walls in rule files.
var wallNames = map[string]permissionv1.Wall{
	"files":   permissionv1.Wall_WALL_FILES,
	"reads":   permissionv1.Wall_WALL_READS,
	"network": permissionv1.Wall_WALL_NETWORK,
}

var ofWalls = criterion{(*rule).holdsWalls, (*rule).whyWalls}

// holdsWalls is never uncertain: the active restrictions of the sandbox are always known.
func (r *rule) holdsWalls(a *action) match {
	active := func(name string) bool { return slices.Contains(a.GetWalls(), wallNames[name]) }
	missing := func(name string) bool { return !active(name) }
	if slices.ContainsFunc(r.contained, missing) {
		return no
	}
	return sureIf(len(r.notContained) == 0 || slices.ContainsFunc(r.notContained, missing))
}

func (r *rule) whyWalls(a *action, held match) string {
	var standing []string
	for _, name := range sortedWalls() {
		if slices.Contains(a.GetWalls(), wallNames[name]) {
			standing = append(standing, name)
		}
	}
	is := "no walls stand"
	if len(standing) > 0 {
		is = "the walls that stand are " + strings.Join(standing, ", ")
	}
	switch {
	case len(r.contained)+len(r.notContained) == 0:
		return ""
	case held == yes:
		return is
	case len(r.contained) > 0:
		return is + ", the rule is for contained: " + strings.Join(r.contained, ", ")
	}
	return is + ", the rule is for not_contained: " + strings.Join(r.notContained, ", ")
}

func sortedWalls() []string { return []string{"files", "reads", "network"} }
