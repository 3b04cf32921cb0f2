package policy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

// TestCheck_PointlessRulesMakeNoDifference combines rules at random, and decides every action with and without the
// rules that Check calls pointless.
func TestCheck_PointlessRulesMakeNoDifference(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) // the same files every time
	choices := map[string][]string{
		"on":        {"", "", "[fs.read]", "['fs.*']", "[terminal.create]", "['*.*']", "[fs.read, tool.execute]"},
		"path":      {"", "", "['${root}/**']", "['${root}/a/**']", "['**/.env']", "['/ws/**']", "['**']", "['/ws/a/.env', '/etc/x']"},
		"command":   {"", "", "[git]", "[git push]", "['git *']", "[sort]", "[sort -o]", "[ls, git]", "['*']", "[rm -rf]"},
		"agent":     {"", "", "", "[a]", "['*']", "[b, a]"},
		"mode":      {"", "", "", "[plan]", "['p*']"},
		"tool":      {"", "", "", "[Bash]", "['mcp__*']", "['*']"},
		"redirect":  {"", "", "none", "any"},
		"reads":     {"", "", "", "", "", "", "['${root}/**']", "['**']"},
		"runs_code": {"", "", "", "", "", "", "", "", "false", "true"},
		"host":      {"", "", "", "", "", "", "", "", "", "['*']", "['*.a.b', localhost]", "['x.a.b:443', 10.0.0.0/8]", "[localhost, 10.0.0.1]"},
		"when":      {"", "", "", "'action.paths.size() == 1'", "'!has(action.command)'"},
	}
	names := []string{"on", "path", "command", "agent", "mode", "tool", "redirect", "when", "reads", "runs_code", "host"}
	actions := everyAction()
	pointless := 0
	for range 4000 {
		var rules []string
		for i := range 3 {
			effect := []string{"deny", "ask", "allow", "allow", "ask, not_grantable: true"}[random.IntN(5)]
			text := fmt.Sprintf("{id: r%d, effect: %s", i, effect)
			for _, name := range names {
				if value := choices[name][random.IntN(len(choices[name]))]; value != "" {
					text += ", " + name + ": " + value
				}
			}
			rules = append(rules, text+"}")
		}
		file := func(without int) string {
			text := "version: 1\nrules:\n"
			for i, rule := range rules {
				if i != without {
					text += "- " + rule + "\n"
				}
			}
			return text
		}
		for _, found := range policy.Check("r.yaml", []byte(file(-1)), policy.Surroundings{}).GetFindings() {
			if !strings.Contains(found.GetMessage(), "makes no difference") {
				continue
			}
			pointless++
			with, without := parse(t, file(-1)), parse(t, file(int(found.GetRule()[1]-'0')))
			for name, action := range actions {
				a, b := decide(with, action), decide(without, action)
				if a.GetVerdict() != b.GetVerdict() || a.GetGrantable() != b.GetGrantable() {
					t.Fatalf("%s%s\n%s: got %v with the rule, %v without", file(-1), found.GetMessage(), name, a, b)
				}
			}
		}
	}
	if pointless < 75 {
		t.Errorf("got %d pointless rules, which is too few for a test", pointless)
	}
}

// to has an action connect to a machine, with its addresses.
func to(host string) func(*permissionv1.Action) {
	words := strings.Fields(host)
	return func(a *permissionv1.Action) {
		a.Endpoint = &permissionv1.Endpoint{Host: words[0], Port: 443, Addresses: words[1:]}
	}
}

func everyAction() map[string]*permissionv1.Action {
	all := map[string]*permissionv1.Action{}
	for _, kind := range []string{"fs.read", "fs.write", "terminal.create", "tool.execute", "tool.think", "net.connect"} {
		for _, mode := range []string{"", "plan", "code"} {
			for _, agentName := range []string{"a", "x"} {
				add := func(what string, with ...func(*permissionv1.Action)) {
					for _, tool := range []string{"", "Bash", "mcp__x"} {
						all[strings.Join([]string{kind, mode, agentName, tool, what}, " ")] = about(kind, append(with, agent(agentName), func(a *permissionv1.Action) { a.Mode, a.Tool = mode, tool })...)
					}
				}
				add("nothing")
				for _, file := range []string{"/ws/a/b", "/ws/.env", "/ws/a/.env", "/etc/x"} {
					add(file, path(file))
					add("two with "+file, path(file, "/ws/c"))
				}
				for _, host := range []string{"x.a.b", "a.b", "10.0.0.1", "x.a.b 10.0.0.1", "localhost 127.0.0.1", "c.d 192.0.2.1 10.0.0.9", "0x1"} {
					add("to "+host, to(host))
				}
				add("unresolved", link("/ws/a/b", ""))
				for _, text := range []string{"git push", "git status; ls", "sort -o x y", "sort x", "rm -rf /", "git $x", "cat .env", "ls 'x", "sudo git push"} {
					add(text, line(text))
				}
				add("cat a", line("cat a"), does(0, reads("/ws/a")))
				add("cat .env", line("cat .env"), does(0, reads("/ws/.env")))
				add("git push; sort x > /etc/x", line("git push; sort x > /etc/x"), into("/etc/x"), does(1, reads("/ws/x")))
				add("git push; make", line("git push; make"), does(0), does(1, runsCode))
				add("git push > a/f", line("git push > a/f"), into("/ws/a/f"))
				add("ls > /etc/x", line("ls > /etc/x"), into("/etc/x"))
			}
		}
	}
	return all
}
