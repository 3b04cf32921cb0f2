package shell_test

import (
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
)

// pieces are the parts of generated lines. None names an existing program, leaves the folder or waits.
var pieces = []string{
	"lsx", "cax", "a#b", " ", " ", " ", "\n", "\n", "\t", "\\\n", "\\\n", "\\\n", "\\", "\\\\", "\\ ", "\\'", "\\\"", "\\`", "\\$", "\\n",
	"#", " #", "'", "'", "\"", "\"", "$\"", "$'", "`", "$", "$x", "${x}", "${x:-", "}", "$(", ")", "(", "$((", "))", "((", "{ ", "; }",
	";", "&&", "||", "|", "|&", "<", ">", "<f", ">f", "2>&1", ">&", "&>", "1>", "{x}>", "<(", "<<E\n", "<<-E\n", "<<'E'\n", "<<<", "\nE\n", "E",
	"<<EOF\n", "<<E'O'F\n", "\nEOF\n", "\n\\\nEOF\n", "\nE\\\nOF\n", "\"${x-'", "'}\"",
	"!", "[[ ", " ]]", "[", "]", "if ", "; then ", "; fi", "case x in ", ";;", ";&", " esac", "for i in ", "; do ", "; done", "function ",
	"f()", "x=1", "x=", "~", "*", "?", "{a,b}", "@(", "+(", "!(", "=", ",", "-", "%", "eval ", "exec ", "true", "false",
	"\f", "\u00a0", "set -k;", "-x ",
}

// ranIn runs a line in a shell that finds no program, and returns what it looked for: whole commands in bash, else
// their names.
func ranIn(t *testing.T, program, line, dir string) (ran [][]string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	c := exec.CommandContext(t.Context(), program, "-c", line)
	c.Dir = dir
	c.Env = []string{
		"PATH=/nonexistent", "LC_ALL=C.UTF-8", "HOME=" + dir, "LOG=" + log,
		`BASH_FUNC_command_not_found_handle%%=() { local IFS=$'\001'; printf '%s\002' "$*" >>"$LOG"; }`,
	}
	var stderr strings.Builder
	c.Stderr = &stderr
	_ = c.Run() // most lines fail
	if filepath.Base(program) == "bash" {
		data, _ := os.ReadFile(log)
		for command := range strings.SplitSeq(strings.TrimSuffix(string(data), "\x02"), "\x02") {
			if command != "" {
				ran = append(ran, strings.Split(command, "\x01"))
			}
		}
		return ran
	}
	for message := range strings.SplitSeq(stderr.String(), "\n") {
		message, missing := strings.CutSuffix(message, ": not found")
		at := strings.LastIndex(message, program+": ")
		if !missing || at < 0 {
			continue
		}
		_, name, _ := strings.Cut(message[at+len(program)+2:], ": ") // the number of the line
		for _, builtin := range []string{"eval: ", "exec: "} {
			name = strings.TrimPrefix(name, builtin)
		}
		ran = append(ran, []string{name})
	}
	return ran
}

// TestParse_AgreesWithShells has shells run lines of all kinds, and compares the commands that run with the parsed
// ones.
func TestParse_AgreesWithShells(t *testing.T) {
	random := rand.New(rand.NewSource(1)) // the same lines each time
	lines := []string{"lsx # \\\ncax", "lsx >&-cax", "\"lsx$\\\n{x}\"", "a\\\\\\\nb", "lsx `lsx # \\\\\ncax`",
		"lsx <<EOF\n\\\nEOF\ncax\nEOF", "lsx <<EOF\nE\\\nOF\ncax\nEOF", "lsx <<'E'OF\na\\\nEOF\ncax\nEOF", "lsx <<EOF\n${x}EOF\nlsx '\nEOF\ncax #'",
		"lsx <<EOF\n${x-'$(cax)'}\nEOF", "x=\"${y-'$(cax)'}\"; lsx", "x=$(lsx <<EOF\nEOF)\ncax\nEOF\n)", "x=$(lsx <<EOF)\nx\nEOF\ncax"}
	for len(lines) < 3000 {
		line := ""
		for range 2 + random.Intn(9) {
			line += pieces[random.Intn(len(pieces))]
		}
		lines = append(lines, line)
	}
	for _, name := range []string{"bash", "dash"} {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Logf("%s is not there", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, line := range lines {
				subs, unparsed := shell.Parse(line)
				if unparsed != "" {
					continue
				}
				var seen []string
				dynamic := false
				for _, sub := range subs {
					dynamic = dynamic || sub.GetDynamic()
					if len(sub.GetArgv()) > 0 && name == "bash" {
						seen = append(seen, fmt.Sprintf("%q", sub.GetArgv()))
					} else if len(sub.GetArgv()) > 0 {
						seen = append(seen, fmt.Sprintf("%q", sub.GetArgv()[:1]))
					}
				}
				if dynamic {
					continue
				}
				for _, ran := range ranIn(t, program, line, dir) {
					if !slices.Contains(seen, fmt.Sprintf("%q", ran)) {
						t.Errorf("%q ran %q, and is read as %s", line, ran, seen)
					}
				}
			}
		})
	}
}
