//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// toldVar has the sandbox of this test binary write down what its decider is told, in the file that it names.
const toldVar = "SANDBOX_TEST_TOLD"

// teller denies everything, and writes down what it is told: a line for each event.
type teller struct{ *os.File }

func tellingDecider(*Options, Lists) Decider {
	file, err := os.OpenFile(os.Getenv(toldVar), os.O_WRONLY|os.O_APPEND|unix.O_CLOEXEC, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(failed)
	}
	return teller{file}
}

func (t teller) Allows(e Event) bool {
	fmt.Fprintf(t, "%s %s%s\n", e.Operation, e.Path, map[bool]string{true: " apart"}[e.Apart])
	return false
}

func (t teller) Refused(_ int, what string) { fmt.Fprintf(t, "refused %s\n", what) }

// observed runs a command that is observed, which has to succeed, and returns what the decider was told.
func (y yard) observed(t *testing.T, role string, command ...string) string {
	t.Helper()
	file := filepath.Join(filepath.Dir(y.inside), "told")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	y.flags = []string{"--observe"}
	cmd := y.confined(t, command...)
	cmd.Env = append(cmd.Env, toldVar+"="+file)
	if role != "" {
		cmd.Env = append(cmd.Env, roleVar+"="+role)
	}
	t.Logf("it said: %s", run(t, y.asUser(t, cmd)))
	told, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(told)
}

// real is the file of a program.
func real(t *testing.T, name string) string {
	t.Helper()
	file, err := exec.LookPath(name)
	if err == nil {
		file, err = filepath.EvalSymlinks(file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestObserve_ReportsOutsidePathsInNamespace: in observe mode the kernel makes the mounts, and the sandbox still
// reports paths as they are outside of the namespace.
func TestObserve_ReportsOutsidePathsInNamespace(t *testing.T) {
	needsNamespaces(t)
	needsPrograms(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unshared := func(line string) []string { return []string{"unshare", "-Urm", "bash", "-ec", line} }
	const lost = "refused "
	for name, c := range map[string]struct {
		command   []string // nil: line, in bubblewrap
		role      string
		more      []string
		line      string
		want, not []string
	}{
		"a file":                       {command: unshared("echo x >.env"), want: []string{"execute BASH apart", "write DENIED"}, not: []string{lost}},
		"a file in bubblewrap":         {line: "echo x >.env", want: []string{"execute SH apart", "write DENIED"}, not: []string{lost}},
		"under another name":           {more: []string{"--bind", "DENIED", "IN/x.txt"}, line: "echo x >x.txt; touch x.txt", want: []string{"write DENIED"}, not: []string{lost, "x.txt"}},
		"a folder":                     {more: []string{"--bind", "OUT", "IN/d"}, line: "echo x >d/new; mv d/new d/other; rm d/other", want: []string{"write OUT/new", "move OUT/new", "move OUT/other", "write OUT/other"}, not: []string{lost}},
		"a folder, by mount":           {command: unshared("mkdir d e; mount -n --bind OUT d; mount -n -t tmpfs t e; mkdir e/m; mount -n --move d e/m; echo x >e/m/new"), want: []string{"write OUT/new"}, not: []string{lost}},
		"a program":                    {more: []string{"--ro-bind", "ID", "IN/harmless"}, line: "./harmless", want: []string{"execute ID apart"}, not: []string{lost}},
		"in memory":                    {more: []string{"--tmpfs", "/mnt"}, line: "echo x >/mnt/f; cp ID /mnt/p; /mnt/p", want: []string{"/root/mnt/p apart"}, not: []string{lost, "write"}},
		"itself in /proc":              {line: "echo hi >/proc/self/comm; echo 7 >/proc/self/oom_score_adj", not: []string{lost, "write"}},
		"a root of its own":            {command: unshared("mkdir r; mount -n --rbind / r; chroot r sh -c 'echo x >DENIED'"), want: []string{"write DENIED"}, not: []string{lost}},
		"a root that is no mount":      {role: "namespaced", command: []string{self, "chrooted", "TOP", "/in/.env"}, want: []string{"write DENIED"}, not: []string{lost}},
		"a socket":                     {role: "reach", more: []string{"--bind", "TOP", "/mnt"}, command: []string{self, "/mnt/socket", "/mnt/in/own"}, want: []string{"connect TOP/socket", "write IN/own"}, not: []string{lost}},
		"an overlay":                   {command: unshared("mkdir l u w m; mount -n -t overlay o m -o lowerdir=l,upperdir=u,workdir=w; cp ID m/p; m/p"), want: []string{lost + "a call", "/in/m/p apart"}, not: []string{"write IN/m/p"}},
		"by a magic link of /proc":     {command: unshared("echo x >/proc/self/cwd/f"), want: []string{lost + "a call"}},
		"what cannot be seen at all":   {command: []string{"sh", "-ec", "cp ID p; cp SH q; chmod 111 p q; ./p; ./q -c 'echo x >f'"}, want: []string{"execute IN/p", "execute IN/q", lost + "a call"}},
		"what is not mounted any more": {command: unshared("mkdir d; mount -n --bind OUT d; cd d; umount -n -l IN/d; echo x >new; rm new"), want: []string{lost + "a call"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			top := filepath.Dir(y.inside)
			listener, err := net.Listen("unix", filepath.Join(top, "socket"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = listener.Close() })
			if err := os.Chmod(filepath.Join(top, "socket"), 0o777); err != nil {
				t.Fatal(err)
			}
			fill := strings.NewReplacer("DENIED", y.denied, "IN", y.inside, "OUT", y.outside, "TOP", top,
				"BASH", real(t, "bash"), "SH", real(t, "sh"), "ID", real(t, "id")).Replace
			command := c.command
			if c.line != "" {
				command = []string{"sh", "-ec", c.line}
			}
			if c.line != "" || c.more != nil {
				command = append(y.bwrap(c.more...), command...)
			}
			var filled []string
			for _, arg := range command {
				filled = append(filled, fill(arg))
			}
			told := y.observed(t, c.role, filled...)
			for _, want := range c.want {
				if !strings.Contains(told, fill(want)+"\n") && !(strings.HasPrefix(want, lost) && strings.Contains(told, want)) {
					t.Errorf("not told: %s", fill(want))
				}
			}
			for _, not := range c.not {
				if regexp.MustCompile(`(?m)^(.* )?` + regexp.QuoteMeta(fill(not))).MatchString(told) {
					t.Errorf("told: %s", fill(not))
				}
			}
			if t.Failed() {
				t.Logf("the decider was told\n%s", told)
			}
		})
	}
}
