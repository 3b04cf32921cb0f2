package corpus

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

// maker turns bytes into choices, so that the fuzzer steers what is made of a denied command.
type maker struct {
	bytes []byte
	at    int
}

func (m *maker) next(n int) int {
	if m.at >= len(m.bytes) {
		return 0
	}
	m.at++
	return int(m.bytes[m.at-1]) % n
}

func (m *maker) more() bool { return m.at < len(m.bytes) }

// quote writes a word in one of the ways that shells have, all of which mean the same word.
func (m *maker) quote(word string) string {
	var b strings.Builder
	for i := range len(word) {
		c := word[i : i+1]
		switch m.next(12) {
		case 1:
			b.WriteString("'" + c + "'")
		case 2:
			b.WriteString(`"` + c + `"`)
		case 3:
			b.WriteString(`\` + c)
		case 4:
			b.WriteString("''" + c)
		case 5:
			b.WriteString(c + `""`)
		case 6:
			fmt.Fprintf(&b, "$'\\x%02x'", c[0])
		case 7:
			fmt.Fprintf(&b, "$'\\%03o'", c[0])
		case 8:
			b.WriteString("\\\n" + c)
		case 9:
			b.WriteString("${nothing}" + c)
		default:
			b.WriteString(c)
		}
	}
	return b.String()
}

// name writes a program's name.
func (m *maker) name(program string) string {
	switch m.next(6) {
	case 1:
		return m.quote("/bin/" + program)
	case 2:
		return m.quote("../../bin/" + program)
	case 3:
		return m.quote(strings.ToUpper(program))
	case 4:
		return m.quote("/usr/bin/./" + program)
	}
	return m.quote(program)
}

// denied is one of the commands that the policy denies.
func (m *maker) denied() string {
	blank := []string{" ", "  ", "\t", " \\\n"}[m.next(4)]
	switch m.next(3) {
	case 1:
		return m.name("git") + blank + m.quote("push") + blank + "origin"
	case 2:
		return m.name("curl") + blank + "example.com"
	}
	return m.name("rm") + blank + "-f" + blank + "x"
}

// harmless is one of the commands that the policy allows.
func (m *maker) harmless() string {
	return []string{"ls", "git status", "echo rm x", "cat main.go", "true", "git log -1", "pwd", "echo 'a b' \"c\""}[m.next(8)]
}

// wrap puts line into something that runs it.
func (m *maker) wrap(line string) string {
	quoted := shell.Quote([]string{line})
	switch m.next(40) {
	case 1:
		return "sh -c " + quoted
	case 2:
		return "bash -lc " + quoted
	case 3:
		return "/bin/bash --norc -o pipefail -c " + quoted + " name"
	case 4:
		return "eval " + quoted
	case 5:
		return m.harmless() + " && " + line
	case 6:
		return m.harmless() + "; " + line
	case 7:
		return m.harmless() + "\n" + line
	case 8:
		return line + " | " + m.harmless()
	case 9:
		return m.harmless() + " || " + line
	case 10:
		return m.harmless() + " & " + line
	case 11:
		return "(" + line + "\n)"
	case 12:
		return "{ " + line + "\n}"
	case 13:
		return "if " + m.harmless() + "; then " + line + "\nfi"
	case 14:
		return "while " + line + "\ndo " + m.harmless() + "; break; done"
	case 15:
		return "for i in a b; do " + line + "\ndone"
	case 16:
		return "case a in *) " + line + "\n;; esac"
	case 17:
		return "echo $(" + line + "\n)"
	case 18:
		return "echo \"$(" + line + "\n)\""
	case 19:
		return "cat <<EOF\n$(" + line + "\n)\nEOF"
	case 20:
		return "f() { " + line + "\n}; f"
	case 21:
		return "git() { " + line + "\n}; git status"
	case 22:
		return "a=$(" + line + "\n) ls"
	case 23:
		return "cat <(" + line + "\n)"
	case 24:
		return "env A=1 sh -c " + quoted
	case 25:
		return "sudo -u root bash -c " + quoted
	case 26:
		return "timeout -s KILL 5 nice -n 3 nohup sh -c " + quoted
	case 27:
		return "find . -name x -exec sh -c " + quoted + " \\;"
	case 28:
		return "echo x | xargs -n 1 sh -c " + quoted
	case 29:
		return "trap " + quoted + " EXIT; ls"
	case 30:
		return "bash <<'END'\n" + line + "\nEND\n"
	case 31:
		return "bash <<< " + quoted
	case 32:
		return "echo " + quoted + " | sh"
	case 33:
		return "! " + line
	case 34:
		return "ls ${x:-$(" + line + "\n)}"
	case 35:
		return "stdbuf -oL setsid command exec env -i bash -c " + quoted
	case 36:
		return "export A=$(" + line + "\n)"
	case 37:
		return "[ -n \"$(" + line + "\n)\" ] && ls"
	case 38:
		return "git -c alias.status='!sh -c " + strings.ReplaceAll(quoted, "'", `'\''`) + "' status"
	case 39:
		return "ls > /dev/null; " + line + " 2>&1"
	}
	return line
}

// FuzzWrappers_KeepDenial puts a denied command into wrappers, quotes and chains that the input chooses. No policy that
// denies the command may allow the line.
func FuzzWrappers_KeepDenial(f *testing.F) {
	all, s := load(f), newFixture(f)
	closed, open := parse(f, "commands", all.Policies["commands"], s), parse(f, "open", all.Policies["open"], s)
	f.Add([]byte{})
	for w := range byte(40) {
		f.Add([]byte{0, 0, 0, w, w + 7, w + 13})
		f.Add([]byte{1, 1, w, 6, 7, 8, 9, w, w, 2 * w, 3 * w})
	}
	f.Add([]byte{0, 1, 4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 17, 18, 24, 25, 26, 27})
	f.Add([]byte{2, 2, 2, 9, 9, 9, 9, 21, 30, 31, 38, 5, 6, 7})
	f.Fuzz(func(t *testing.T, choices []byte) {
		m := &maker{bytes: choices[:min(len(choices), 200)]}
		line := m.denied()
		depth := 0
		for m.more() && len(line) < 8<<10 && depth < 6 {
			line = m.wrap(line)
			depth++
		}
		for name, p := range map[string]*policy.Policy{"commands": closed, "open": open} {
			if d := policy.Decide([]policy.Part{{Policy: p}}, s.run(line, nil, nil, "")); d.GetVerdict() == permissionv1.Verdict_VERDICT_ALLOW {
				t.Fatalf("%s allows it by rule %q:\n%s\n%q", name, d.GetRule(), line, line)
			}
		}
	})
}
