package policytool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/shell"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

// next returns advice about a decision other than allow. It is empty if the user's own rule has decided.
func (e *Explanation) next() []string {
	d := e.Answer.GetDecision()
	switch d.GetRule() {
	case gate.RuleProtected:
		return []string{"change it yourself: agents never may. A file with a key is kept from them for as long as the configuration names it"}
	case gate.RuleGit:
		return []string{"have the agent use git's own commands, or change it yourself"}
	case gate.RuleUnclear:
		return []string{"have the agent write out the names of files, without variables and patterns: then it is clear that none is a key"}
	case gate.RuleNoPolicy:
		return []string{"\"--policy workspace\" of run, prompt, chat and serve, or permission.policy in the configuration, asks first"}
	}
	if d.GetVerdict() != gate.Ask || d.GetRule() != "" && !e.mayHold(d.GetRule()) {
		return nil
	}
	todo := e.about(e.Action.GetCommand())
	if d.GetRule() == "" && len(todo) == 0 && len(e.Files) > 0 && e.Action.GetKind() != "tool.switch_mode" {
		todo = append(todo, "to have it decided without asking, write a rule; \"acphost policy check FILE\" tries the file")
	}
	return todo
}

// mayHold reports whether the rule that decided may not match, because its condition depends on unknown facts.
func (e *Explanation) mayHold(rule string) bool {
	return slices.ContainsFunc(e.Answer.GetConsidered(), func(c *permissionv1.Considered) bool {
		return c.GetRule() == rule && c.GetMatched() == "maybe"
	})
}

// about returns advice that makes a command suitable for rules.
func (e *Explanation) about(c *permissionv1.Command) []string {
	var todo []string
	add := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !slices.Contains(todo, text) {
			todo = append(todo, text)
		}
	}
	if c.GetUnparsed() != "" {
		add("have the agent write it as plain commands (\"a && b\", \"a | b\"), so that all of it can be seen")
	}
	for _, sub := range c.GetSubCommands() {
		argv := sub.GetArgv()
		if sub.GetDynamic() && len(argv) > 0 {
			add("have the agent write out what is only known when `%s` runs: no variables, substitutions and patterns", argv[0])
		}
		why, r := shell.Doubt(sub), sub.GetRepository()
		switch {
		case why == "" || !strings.Contains(e.Answer.GetDecision().GetDetail(), why): // it is not the reason of the decision
		case onlyLooks(argv) && why != shell.DoubtBeside(sub):
			add("the rule is about the system's %s: have the workspace's folder come last in PATH, or take it out", argv[0])
		case why != shell.DoubtBeside(sub):
			add("if programs of the workspace may run by this rule, have it say workspace_programs: true; " +
				"or have the rule and the agent name the program by its path")
		case r.GetGitDir() != "" && !r.GetAtRoot():
			add("open the session in the folder of that repository, or have its folder be a root of the session")
		case len(r.GetSuspects()) > 0:
			add("%s", aboutSuspects(r))
		}
	}
	return todo
}

func aboutSuspects(r *acpv1.Repository) string {
	i := slices.IndexFunc(r.GetSuspects(), func(s string) bool { return strings.Contains(s, ".") && !strings.Contains(s, "/") })
	if i < 0 {
		return fmt.Sprintf("look at %s in %s, and take away what you did not put there", strings.Join(r.GetSuspects(), ", "), r.GetGitDir())
	}
	name := r.GetSuspects()[i]
	return fmt.Sprintf("\"git config --show-origin --get-all %s\" tells where that stands; if you want it, set it in your own "+
		"~/.gitconfig and take it away there: \"git config --local --unset-all %s\"", name, name)
}

func onlyLooks(argv []string) bool {
	_, looks := shell.Generalisable(argv)
	return looks
}
