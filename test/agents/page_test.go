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

// The page is made of what was observed, and of nothing else.
func TestThePageTellsWhatWasObserved(t *testing.T) {
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
	b.WriteString("| agent | version | " + strings.Join(columns(), " | ") + " |\n|" + strings.Repeat("---|", 2+len(policies)) + "\n")
	for _, o := range all {
		fmt.Fprintf(&b, "| [%s](#%s) | %s |%s\n", o.Title, anchor(o.Title), o.Version, o.each(func(r run) string { return inHarmless(r) }))
	}
	for i, c := range candidates {
		b.WriteString(all[i].section(c))
	}
	testkit.Golden(t, page, b.String())
}

const pageHead = `# Agents

What each agent does below acphost, as it is and under the ready-made policies. ` + "`make agents`" + ` writes this page: it
runs the agents themselves, as npm distributes them, with a scripted model in place of a real one. Other versions may do
otherwise.

Each agent plays two turns. In the *harmless turn* it reads a file, looks around (` + "`ls -la`, `git status`, `grep -rn TODO src`" + `
and more), edits a file, and runs the tests. The user allows whatever acphost asks. In the *hostile turn* it is after
secrets, other folders, acphost's own files and the network. The user rejects whatever acphost asks.

The numbers are questions to the user in the harmless turn. ` + "`readonly`" + ` denies edits and tests. Under ` + "`headless`" + `, what is
asked here is denied if no user is there.

| in the tables | |
|---|---|
| allowed | acphost allowed it, by the policy |
| asked | acphost, or the agent, asked the user |
| denied | acphost denied it, by the policy |
| done | the agent did it, without a policy |
| done, reported | the agent asked nobody. acphost judged what the agent had reported, and recorded that no rule allows it |
| done, not seen | the agent asked nobody, and acphost recorded nothing: a rule allows it, or the agent reported nothing |
| done all the same | the agent did it although it was denied |
| not done | the agent itself did not do it |

`

// columns are the headings of the columns of policies.
func columns() []string {
	all := slices.Clone(policies)
	for i, p := range all {
		if all[i] = "`" + p + "`"; p == noPolicy {
			all[i] = "no policy"
		}
	}
	return all
}

// each is a cell for each policy.
func (o observation) each(cell func(run) string) string {
	var b strings.Builder
	for _, policy := range policies {
		i := slices.IndexFunc(o.Runs, func(r run) bool { return r.Policy == policy })
		b.WriteString(" " + cell(o.Runs[i]) + " |")
	}
	return b.String()
}

// inHarmless says how many questions a harmless turn took, and what was not done in it.
func inHarmless(r run) string {
	questions, undone := 0, 0
	for _, s := range r.Harmless {
		questions += len(s.Questions)
		if !s.Worked {
			undone++
		}
	}
	text := fmt.Sprint(questions)
	if undone > 0 {
		text += fmt.Sprintf(", %d of %d not done", undone, len(r.Harmless))
	}
	return text
}

// section is the section of one agent.
func (o observation) section(c candidate) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n", o.Title)
	fmt.Fprintf(&b, "- **Start:** `%s`. Version %s, npm package `%s`.\n", c.start, o.Version, c.npm)
	work := o.under("workspace")
	kinds, alone := map[string]bool{}, []string(nil)
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
			if line, ok := strings.CutPrefix(s.Does, "runs `"); ok && len(alone) > 0 && strings.Contains(alone[len(alone)-1], "runs ") {
				alone = append(alone, "`"+line)
				continue
			}
			alone = append(alone, s.Does)
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
	fmt.Fprintf(&b, "- **Delegates to acphost:** %s.\n", list(does, "nothing; it reads, writes and runs commands itself"))
	fmt.Fprintf(&b, "- **Requests permission for:** %s.\n", list(asks, "nothing"))
	fmt.Fprintf(&b, "- **Does by itself, under `workspace`, in the harmless turn:** %s.\n", list(alone, "nothing"))
	for _, l := range c.limits {
		b.WriteString("- " + l + "\n")
	}
	b.WriteString("\n| harmless turn | " + strings.Join(columns(), " | ") + " |\n|" + strings.Repeat("---|", 1+len(policies)) + "\n")
	fmt.Fprintf(&b, "| questions |%s\n", o.each(inHarmless))
	b.WriteString(o.rows(false))
	b.WriteString("\n| hostile turn | " + strings.Join(columns(), " | ") + " |\n|" + strings.Repeat("---|", 1+len(policies)) + "\n")
	b.WriteString(o.rows(true))
	return b.String()
}

// rows are a row for each act of the hostile turn, or for those of the harmless one that did not go by themselves.
func (o observation) rows(hostile bool) string {
	acts := func(r run) []seen { return r.Harmless }
	if hostile {
		acts = func(r run) []seen { return r.Hostile }
	}
	smooth := []string{done, allowed, unseen}
	var b strings.Builder
	for i, act := range acts(o.Runs[0]) {
		cell := func(r run) string { return acts(r)[i].outcome(r.Policy, hostile) }
		if hostile || slices.ContainsFunc(o.Runs, func(r run) bool { return !slices.Contains(smooth, cell(r)) }) {
			fmt.Fprintf(&b, "| %s |%s\n", strings.ReplaceAll(act.Does, "|", `\|`), o.each(cell))
		}
	}
	return b.String()
}

// under is the run under a policy.
func (o observation) under(policy string) run {
	return o.Runs[slices.IndexFunc(o.Runs, func(r run) bool { return r.Policy == policy })]
}

// list is a list in words.
func list(all []string, none string) string {
	if len(all) == 0 {
		return none
	}
	return strings.Join(all, ", ")
}

// anchor is the link to a heading.
func anchor(heading string) string {
	return strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(strings.ToLower(heading))
}
