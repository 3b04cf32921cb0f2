package agents

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

// page is docs/agents.md, from the folder testdata.
const page = "../../../docs/agents.md"

// TestPage_MatchesObservations: the page is generated from the observations alone.
func TestPage_MatchesObservations(t *testing.T) {
	var b strings.Builder
	b.WriteString(pageHead)
	var all []observation
	for _, c := range candidates {
		text, err := os.ReadFile(filepath.Join("testdata", "observed", c.id+".json"))
		if err != nil {
			t.Fatalf("%s was not observed; run make agents: %v", c.title, err)
		}
		var o observation
		if err := json.Unmarshal(text, &o); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	b.WriteString(heading("agent | version", policies))
	for i, o := range all {
		fmt.Fprintf(&b, "| [%s](#%s) | %s |%s\n", o.Title, anchor(o.Title), o.Version, o.each(policies, false, inHarmless))
		if candidates[i].titled != "" {
			fmt.Fprintf(&b, "| [%s](#%s), trusted titles | %s | |%s\n", o.Title, anchor(o.Title), o.Version, o.each(policies[1:], true, inHarmless))
		}
	}
	fmt.Fprintf(&b, sandboxHead, rounds)
	for i, c := range candidates {
		b.WriteString(sandboxRow(all[i], sandboxed(t, c.id)))
	}
	b.WriteString(wallsSection(t))
	for i, c := range candidates {
		b.WriteString(all[i].section(c))
		b.WriteString(sandboxSection(sandboxed(t, c.id)))
	}
	testkit.Golden(t, page, b.String())
}

const pageHead = `# Agents

What each agent does below acphost, as it is and under the ready-made policies. ` + "`make agents`" + ` writes this page: it
runs the agents themselves, as npm distributes them, with a scripted model in place of a real one. Other versions may do
otherwise.

Each agent has two sessions. In the *harmless session* it reads a file, looks around (` + "`ls -la`, `git status`,\n`grep -rn TODO src`" + ` and more), edits a file, and runs the tests. The user allows whatever acphost asks. In the *hostile
session* it is after secrets, other folders, acphost's own files and the network. The user rejects whatever acphost asks.
Each act is a turn of its own.

The numbers are questions to the user in the harmless session, and in brackets how many of its acts were done, if not all were.
` + "`readonly`" + ` denies edits and tests. Under ` + "`headless`" + `, what is asked here is denied if no user is there.

| in the tables | |
|---|---|
| allowed | acphost allowed it, by the policy |
| asked | acphost, or the agent, asked the user |
| denied | acphost denied it, by the policy |
| done | the agent did it, without a policy |
| done, allowed | the agent asked nobody, and reported it afterwards. A rule allows it |
| done, reported | the agent asked nobody, and reported it afterwards. No rule allows it, and acphost recorded that |
| done, unclear | the agent asked nobody, and reported it afterwards, but not in a way that rules can judge. acphost recorded that |
| done, not recorded | the agent asked nobody, and reported it afterwards as reading or searching. acphost records this only if a rule denies it |
| done, not reported | the agent asked nobody, and reported nothing |
| done all the same | the agent did it although it was denied |
| not done | the agent itself did not do it |

Some agents name a command in a title alone, which rules do not judge. *Trusted titles* are such an agent with
` + "`\"title_is_command\": true, \"elsewhere\": false`" + ` in a [dialect](configuration.md#dialects) of the user's: rules then judge the title.
The section of the agent says what that is worth.

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

// inHarmless says how many questions a harmless session took, and how much of it was done.
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

// section is the section of one agent.
func (o observation) section(c candidate) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n", o.Title)
	fmt.Fprintf(&b, "- **Start:** `%s`. Version %s, npm package `%s`.\n", c.start, o.Version, c.npm)
	work := o.under("workspace", false)
	kinds, alone := map[string]bool{}, []string(nil)
	runs := false // the last of alone is a list of commands
	for _, s := range slices.Concat(work.Harmless, work.Hostile) {
		for _, line := range s.Reached {
			if door, rest, _ := strings.Cut(line, " "); door == "request" {
				kind, _, _ := strings.Cut(rest, ":")
				kinds[kind] = true
			}
		}
	}
	for _, s := range work.Harmless {
		if s.Worked && !slices.ContainsFunc(s.Reached, func(l string) bool { return !strings.HasPrefix(l, "report ") }) {
			line, isRun := strings.CutPrefix(s.Does, "runs `")
			if isRun && runs {
				alone[len(alone)-1] += ", `" + line
			} else {
				alone = append(alone, s.Does)
			}
			runs = isRun
		}
	}
	var asks []string
	for k := range kinds {
		asks = append(asks, "`"+k+"`")
	}
	slices.Sort(asks)
	var does []string
	for _, m := range o.Delegates {
		does = append(does, "`"+m+"`")
	}
	fmt.Fprintf(&b, "- **Delegates to acphost:** %s.\n", list(does, ", ", "nothing; it reads, writes and runs commands itself"))
	fmt.Fprintf(&b, "- **Requests permission for:** %s.\n", list(asks, ", ", "nothing"))
	fmt.Fprintf(&b, "- **Does by itself, under `workspace`, in the harmless session:** %s.\n", list(alone, "; ", "nothing"))
	for _, l := range c.limits {
		b.WriteString("- " + l + "\n")
	}
	b.WriteString("\n" + heading("harmless session", policies))
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

// changes are a row for each act of which something else comes if titles are trusted.
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
