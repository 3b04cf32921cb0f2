package importer_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/permd/internal/importer"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

// FuzzImport imports arbitrary files. Nothing may panic, and the resulting rule file must load.
func FuzzImport(f *testing.F) {
	for name, file := range map[string]string{"claude": "claude.json", "gemini": "gemini.toml", "opencode": "opencode.json"} {
		f.Add(name, sample(f, file))
	}
	for _, seed := range []string{
		`{"permissions":{"allow":["Bash(", "Read(a/../b)", "Edit(${x})", "Read([a)", "Bash(:*)", "(x)", "", "Read(//)", "Edit(/**/**x)"]}}`,
		`{"permissions":{"deny":["Bash( )", "Read(\\a)", "Edit({a,b})", "Read(a//b)", "Bash(*\"'*)", "Read(~/)", "mcp__", "Read(.)", "Bash(\u0000)"]}}`,
	} {
		f.Add("claude", seed)
	}
	f.Add("gemini", "[[rule]]\ntoolName=['','*']\ndecision='deny'\npriority=0\ncommandPrefix=''\n")
	f.Add("gemini", "[[rule]]\ntoolName='run_shell_command'\ncommandRegex='^(a|b'\ndecision='deny'\npriority=0\nmodes=['']\n")
	f.Add("opencode", `{"permission":{"bash":{"":"deny"," ":"ask","?":"allow","~/x":"deny"},"edit":{"a//b":"deny","../x":"allow","$HOME":"ask","**/**":"deny","a[":"deny"},"":"deny"}}`)
	f.Add("", "[[rule]]")
	f.Fuzz(func(t *testing.T, format, content string) {
		rules, dropped, used, err := importer.Import(format, "file", []byte(content))
		if err != nil {
			return
		}
		if _, err := policy.Parse("imported.yaml", rules, policy.Surroundings{Home: "/home/u"}); err != nil {
			t.Fatalf("%s %q becomes what does not load: %v\n%s", used, content, err, rules)
		}
		for _, d := range dropped {
			if d.GetEntry() == "" || d.GetWhy() == "" {
				t.Errorf("an entry is reported as %v", d)
			}
		}
	})
}

// rule is a pattern for commands and what is to become of them, in any of the formats.
type rule struct{ effect, pattern string }

// choices makes rules and commands of a fuzzer's bytes.
type choices []byte

func (c *choices) next(n int) int {
	if len(*c) == 0 {
		return 0
	}
	b := (*c)[0]
	*c = (*c)[1:]
	return int(b) % n
}

var vocabulary = []string{"a", "b", "ab", "a-b", "--c", "-d", "x=y", "a/b", "b.c"}

func (c *choices) words() []string {
	words := make([]string, 1+c.next(4))
	for i := range words {
		words[i] = vocabulary[c.next(len(vocabulary))]
	}
	return words
}

// rules has patterns in which some parts of words are wild.
func (c *choices) rules(wild ...string) []rule {
	rules := make([]rule, 1+c.next(6))
	for i := range rules {
		words := c.words()
		for j := range words {
			if n := c.next(3 * (1 + len(wild))); n < len(wild) {
				words[j] = wild[n]
			} else if n == len(wild) && len(wild) > 0 {
				words[j] += wild[0]
			}
		}
		rules[i] = rule{[]string{"allow", "ask", "deny"}[c.next(3)], strings.Join(words, " ")}
	}
	return rules
}

// commands are lines of one command or two.
func (c *choices) commands() [][]string {
	lines := make([][]string, 1+c.next(8))
	for i := range lines {
		lines[i] = []string{strings.Join(c.words(), " ")}
		if c.next(4) == 0 {
			lines[i] = append(lines[i], strings.Join(c.words(), " "))
		}
	}
	return lines
}

// matchesText is how the other programs match a pattern: "*" is any characters, "?" one; " *" at the end may be nothing.
func matchesText(pattern, text string) bool {
	expr := regexp.QuoteMeta(pattern)
	expr = strings.ReplaceAll(strings.ReplaceAll(expr, `\*`, ".*"), `\?`, ".")
	if rest, ok := strings.CutSuffix(expr, " .*"); ok {
		expr = rest + "( .*)?"
	}
	return regexp.MustCompile("(?s)^" + expr + "$").MatchString(text)
}

// theirs decides a line as the other program does: each command by one, the strictest of them counts.
func theirs(line []string, one func(text string) string) string {
	worst := "allow"
	for _, text := range line {
		if effect := one(text); effect == "deny" || worst == "allow" {
			worst = effect
		}
	}
	return worst
}

// neverLooser compares. strict: what is denied there is not merely asked about here.
func neverLooser(t *testing.T, p imported, lines [][]string, rules []rule, one func(string) string) {
	t.Helper()
	for _, line := range lines {
		text := strings.Join(line, " && ")
		got, want := verdict(policy.Decide([]policy.Part{{Policy: p.Policy}}, act(text))), theirs(line, one)
		if got == "allow" && want != "allow" || want == "deny" && got != "deny" {
			t.Fatalf("%s: got %s, where the other program returns %s\n%q\n%s", text, got, want, rules, p.text)
		}
	}
}

func FuzzClaude_RulesAreNotLooser(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		c := choices(data)
		rules := c.rules("*")
		lists := map[string][]string{}
		for _, r := range rules {
			lists[r.effect] = append(lists[r.effect], "Bash("+r.pattern+")")
		}
		content, err := json.Marshal(map[string]any{"permissions": lists})
		if err != nil {
			t.Fatal(err)
		}
		one := func(text string) string {
			for _, effect := range []string{"deny", "ask", "allow"} {
				if slices.ContainsFunc(rules, func(r rule) bool { return r.effect == effect && matchesText(r.pattern, text) }) {
					return effect
				}
			}
			return "ask"
		}
		neverLooser(t, load(t, "claude", "s", string(content)), c.commands(), rules, one)
	})
}

func FuzzGemini_RulesAreNotLooser(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		c := choices(data)
		rules := c.rules()
		var content strings.Builder
		for i, r := range rules {
			decision := strings.Replace(r.effect, "ask", "ask_user", 1)
			fmt.Fprintf(&content, "[[rule]]\ntoolName = 'run_shell_command'\ndecision = %q\npriority = %d\n", decision, 900-i)
			if r.pattern == "a" {
				rules[i].pattern = "" // any command
			} else {
				fmt.Fprintf(&content, "commandPrefix = %q\n", r.pattern)
			}
		}
		one := func(text string) string {
			for _, r := range rules {
				if r.pattern == "" || text == r.pattern || strings.HasPrefix(text, r.pattern+" ") {
					return r.effect
				}
			}
			return "ask"
		}
		lines := c.commands()
		p := load(t, "gemini", "s", content.String())
		neverLooser(t, p, lines, rules, func(text string) string {
			return one(text)
		})
	})
}

func FuzzOpencode_RulesAreNotLooser(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		c := choices(data)
		var rules []rule
		for _, r := range c.rules("*", "?") {
			if !slices.ContainsFunc(rules, func(o rule) bool { return o.pattern == r.pattern }) {
				rules = append(rules, r)
			}
		}
		members := make([]string, len(rules))
		for i, r := range rules {
			members[i] = fmt.Sprintf("%q: %q", r.pattern, r.effect)
		}
		one := func(text string) string {
			for _, r := range slices.Backward(rules) {
				if matchesText(r.pattern, text) {
					return r.effect
				}
			}
			return "allow" // by itself
		}
		neverLooser(t, load(t, "opencode", "s", `{"permission": {"bash": {`+strings.Join(members, ", ")+`}}}`), c.commands(), rules, one)
	})
}

func seeds(f *testing.F) {
	f.Add([]byte{})
	for i := range byte(24) {
		seed := make([]byte, 60)
		for j := range seed {
			seed[j] = byte(j)*(2*i+1) + i*i
		}
		f.Add(seed)
	}
}
