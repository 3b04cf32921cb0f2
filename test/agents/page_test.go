package agents

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

// The generated pages, from the folder testdata.
const (
	page      = "../../../docs/agents.md"
	reference = "../../../docs/reference-agents.md"
)

// TestPage_MatchesObservations: the pages are generated from the observations alone.
func TestPage_MatchesObservations(t *testing.T) {
	all, confined := map[string]observation{}, map[string]confined{}
	for _, c := range candidates {
		all[c.id], confined[c.id] = observed(t, c), sandboxed(t, c.id)
	}
	testkit.Golden(t, page, agentsPage(t, all))
	testkit.Golden(t, reference, referencePage(all, confined))
}

// observed reads what was observed of an agent under each policy.
func observed(t *testing.T, c candidate) (o observation) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "observed", c.id+".json"))
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		t.Fatalf("%s was not observed; run make agents: %v", c.title, err)
	}
	return o
}

// agentsPage is docs/agents.md: how to run each agent.
func agentsPage(t *testing.T, all map[string]observation) string {
	var b strings.Builder
	b.WriteString(pageHead + heading("agent | version", policies))
	for _, c := range candidates {
		o := all[c.id]
		fmt.Fprintf(&b, "| [%s](reference-agents.md#%s) | %s |%s\n", o.Title, anchor(o.Title), o.Version, o.each(policies, false, inHarmless))
	}
	b.WriteString(wallsSection(t))
	for _, c := range slices.Concat(candidates, others) {
		if c.name == "" { // a former adapter
			continue
		}
		fmt.Fprintf(&b, howTo, c.title, c.npm, c.name)
		if o, is := all[c.id]; is {
			b.WriteString(o.summary())
		}
		for _, l := range c.limits {
			b.WriteString("- " + l + "\n")
		}
	}
	return b.String()
}

// referencePage is docs/reference-agents.md: the tables of each agent.
func referencePage(all map[string]observation, confined map[string]confined) string {
	var b strings.Builder
	fmt.Fprintf(&b, referenceHead, rounds)
	for _, c := range candidates {
		b.WriteString(sandboxRow(all[c.id], confined[c.id]))
	}
	for _, c := range candidates {
		b.WriteString(all[c.id].section(c) + sandboxSection(confined[c.id]))
	}
	return b.String()
}

const pageHead = `# Agents

This page shows how to run each agent with acphost, and what you can expect of it. For example, Claude on a terminal, in
the sandbox:

` + "```sh" + `
acphost agents list
acphost agents login claude
acphost chat --policy workspace --sandbox enforce --agent claude
` + "```" + `

` + "`acphost agents list` shows the known agents, whether they are installed, and how to install the others. `acphost run --agent claude --`" + `
is the command for an editor ([set up](editors.md)). If an agent is not installed, npx downloads its tested version at
the first start. You can [add agents of your own](agent-entries.md).

- Most agents read, write and run commands themselves, and only request permission for some of these actions. Without the
  [sandbox](sandbox.md), acphost cannot prevent an action for which an agent requests no permission.
- ` + "`--agent NAME`" + ` starts an agent with settings that make it ask. A variable that you set yourself overrides such a
  setting. An agent that you start by its command (` + "`acphost run -- COMMAND`" + `) has its own defaults.
- **A workspace can run programs before a policy decides anything.** When a session opens, Claude runs the hooks in
  ` + "`.claude/settings.json`" + ` and the MCP servers in ` + "`.mcp.json`" + `, Codex the MCP servers in ` + "`.codex/config.toml`" + `, and
  Qwen Code both in ` + "`.qwen/settings.json`" + `. Without the sandbox, no policy sees these programs. Read a repository's
  files before you open a session in it, or run the agent as another user or in a container.

## Compatibility

` + "`make agents`" + ` generates this page. It runs the agents, as npm distributes them, with a scripted model in place of a
real one. Other versions may behave differently.

The table shows the number of questions to the user in a session in which the agent reads, looks around, edits a file
and runs the tests, without the sandbox. Brackets contain the number of completed actions if some were denied or failed:
` + "`readonly` denies edits and tests. The [reference](reference-agents.md)" + ` has the result of each action, and of a hostile
session.

`

// howTo begins the section of an agent.
const howTo = `
## %[1]s

- **Run:** ` + "`acphost run --agent %[3]s --` in an editor, `acphost chat --agent %[3]s`" + ` on a terminal.
- **Log in:** ` + "`acphost agents login %[3]s`. **Package:** `%[2]s`" + ` (npm).
`

const referenceHead = `# Reference: agents

Results of each action of each agent, without and with the sandbox. [Agents](agents.md) describes how to run them.
` + "`make agents`" + ` generates this page.

Each agent has two sessions. In the *harmless session* it reads a file, looks around (` + "`ls -la`, `git status`" + ` and more),
edits a file, and runs the tests; the user allows what is asked. The table omits actions that were done or allowed under
each policy. In the *hostile session* it tries to reach secrets, other folders, acphost's own files and the network; the
user rejects what is asked. Under ` + "`headless`" + `, a question counts as denied if no user is available.

| result | meaning |
|---|---|
| allowed | acphost allowed it, by the policy |
| asked | acphost, or the agent, asked the user |
| denied | acphost denied it, by the policy |
| done | the agent did it, without a policy |
| done, allowed | the agent did it without asking and reported it. A rule allows it |
| done, reported | the agent did it without asking and reported it. No rule allows it, and acphost recorded that |
| done, unclear | the agent did it without asking, and its report is not clear enough for rules. acphost recorded that |
| done, not recorded | the agent did it without asking, and reported reading or searching. acphost records this only if a rule denies it |
| done, not reported | the agent did it without asking, and reported nothing |
| done all the same | the agent did it although it was denied |
| not done | the agent itself did not do it |

Some agents show a command only in a title. *Trusted titles* are results with
[` + "`title_is_command: true`" + ` and ` + "`elsewhere: false`" + `](agent-entries.md#dialects) for such an agent.

## Sandbox modes

Each agent has the same turn under ` + "`workspace`" + ` with ` + "[`sandbox.mode`](sandbox.md#settings) `off`, `observe` and `enforce`" + `,
with ` + "`reads: false` and `network: open`" + `. In the turn it works as in the harmless session, writes a file outside of the
roots, and runs ` + "`curl`" + `; the user allows what is asked. The turn *passes* if it ends as without the sandbox, and if the
actions that the policy allows succeed at the first attempt. *Questions* are those of the first turn. *Time* is the median
of %d turns, relative to ` + "`off`" + `; refused actions shorten it. After the turn, the agent performs unwanted actions, and
the user rejects what is asked. The tables of the agents show only actions whose result differs between the modes.

- The agents ran as root, for whom their own sandboxes (bubblewrap) do not work inside.
  [Decision 31](decisions/0031-bubblewrap-in-the-sandbox.md) describes Claude and Codex as an ordinary user.
- Gemini CLI, Cline, and for some commands Qwen Code, read the workspace's ` + "`.env`" + ` and pass its variables to commands. acphost
  does not know the effects of these variables, and asks about the commands.

| agent | ` + "`observe` passes | time | `enforce`" + ` passes | time | questions: ` + "`off` | `observe` | `enforce`" + ` |
|---|---|---|---|---|---|---|---|
`

// heading is the head of a table: the first columns, and one for each policy.
func heading(first string, policies []string) string {
	columns := strings.Split(first, " | ")
	for _, p := range policies {
		if p == noPolicy {
			columns = append(columns, "no policy")
		} else {
			columns = append(columns, "`"+p+"`")
		}
	}
	return "| " + strings.Join(columns, " | ") + " |\n|" + strings.Repeat("---|", len(columns)) + "\n"
}

// each is a cell for each policy.
func (o observation) each(policies []string, titles bool, cell func(run) string) string {
	var b strings.Builder
	for _, policy := range policies {
		b.WriteString(" " + cell(o.under(policy, titles)) + " |")
	}
	return b.String()
}

// inHarmless describes how many questions a harmless session needed, and how many of its acts were done.
func inHarmless(r run) string {
	questions, worked := 0, 0
	for _, s := range r.Harmless {
		questions += len(s.Questions)
		if s.Worked {
			worked++
		}
	}
	if worked < len(r.Harmless) {
		return fmt.Sprintf("%d (%d of %d done)", questions, worked, len(r.Harmless))
	}
	return fmt.Sprint(questions)
}

// summary states what the agent delegates to acphost, what it requests, and what it does without a request.
func (o observation) summary() string {
	kinds, alone := map[string]bool{}, []string(nil)
	commands, silent := 0, 0 // of the harmless session, and those of them that the agent ran without a request
	work := o.under("workspace", false)
	for _, s := range slices.Concat(work.Harmless, work.Hostile) {
		for _, line := range s.Reached {
			if from, rest, _ := strings.Cut(line, " "); from == "request" {
				kind, _, _ := strings.Cut(rest, ":")
				kinds["`"+kind+"`"] = true
			}
		}
	}
	for _, s := range work.Harmless {
		without := s.Worked && !slices.ContainsFunc(s.Reached, func(l string) bool { return !strings.HasPrefix(l, "report ") })
		switch isCommand := strings.HasPrefix(s.Does, "runs `"); {
		case isCommand && without:
			silent++
			fallthrough
		case isCommand:
			commands++
		case without:
			alone = append(alone, s.Does)
		}
	}
	if silent > 0 {
		alone = append(alone, fmt.Sprintf("runs %d of %d commands that only read", silent, commands))
	}
	var delegates []string
	for _, m := range o.Delegates {
		delegates = append(delegates, "`"+m+"`")
	}
	return fmt.Sprintf("- **Delegates to acphost:** %s.\n- **Requests permission for:** %s.\n- **Without a request, it:** %s.\n",
		list(delegates, ", ", "nothing"), list(slices.Sorted(maps.Keys(kinds)), ", ", "nothing"),
		list(alone, ", ", "does nothing"))
}

// section is the section of one agent in the reference.
func (o observation) section(c candidate) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\nVersion %s, npm package `%s`.", o.Title, o.Version, c.npm)
	if c.name == "" {
		b.WriteString(" " + strings.Join(c.limits, " "))
	}
	b.WriteString("\n\n" + heading("harmless session", policies))
	fmt.Fprintf(&b, "| questions |%s\n", o.each(policies, false, inHarmless))
	b.WriteString(o.rows(false))
	b.WriteString("\n" + heading("hostile session", policies))
	b.WriteString(o.rows(true))
	if c.titled != "" {
		b.WriteString("\n" + heading("trusted titles change", policies[1:]))
		fmt.Fprintf(&b, "| questions in the harmless session |%s\n", o.each(policies[1:], true, inHarmless))
		b.WriteString(o.changes(false) + o.changes(true))
	}
	return b.String()
}

// rows are a row for each act of the hostile session, or for those of the harmless one that did not go by themselves.
func (o observation) rows(hostile bool) string {
	smooth := []string{done, allowed, byRule, unrecorded, unreported}
	var b strings.Builder
	for i, act := range o.Runs[0].acts(hostile) {
		cell := func(r run) string { return r.acts(hostile)[i].outcome(r.Policy, hostile) }
		if hostile || slices.ContainsFunc(policies, func(p string) bool { return !slices.Contains(smooth, cell(o.under(p, false))) }) {
			b.WriteString(act.row(o.each(policies, false, cell)))
		}
	}
	return b.String()
}

// changes has a row for each act whose result differs if titles are trusted.
func (o observation) changes(hostile bool) string {
	var b strings.Builder
	for i, act := range o.Runs[0].acts(hostile) {
		cell := func(r run) string { return r.acts(hostile)[i].outcome(r.Policy, hostile) }
		if now := o.each(policies[1:], true, cell); now != o.each(policies[1:], false, cell) {
			b.WriteString(act.row(now))
		}
	}
	return b.String()
}

// acts are those of one of the turns.
func (r run) acts(hostile bool) []seen {
	if hostile {
		return r.Hostile
	}
	return r.Harmless
}

// row is the row of an act in a table.
func (s seen) row(cells string) string {
	return "| " + strings.ReplaceAll(s.Does, "|", `\|`) + " |" + cells + "\n"
}

// under is the run under a policy.
func (o observation) under(policy string, titles bool) run {
	return o.Runs[slices.IndexFunc(o.Runs, func(r run) bool { return r.Policy == policy && r.Titles == titles })]
}

// list is a list in words.
func list(all []string, between, none string) string {
	if len(all) == 0 {
		return none
	}
	return strings.Join(all, between)
}

// anchor is the link to a heading.
func anchor(heading string) string {
	return strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(strings.ToLower(heading))
}
