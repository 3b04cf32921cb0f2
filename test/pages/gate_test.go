package pages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// TestGate_ChecksProgramsItNeeds runs .ci/run with programs that only answer its checks. Its first make target fails.
func TestGate_ChecksProgramsItNeeds(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	tools := map[string]string{}
	for _, name := range []string{"bash", "cat", "dirname", "head", "mktemp", "rm", "sed", "sort"} {
		if tools[name], err = exec.LookPath(name); err != nil {
			t.Skip("the script needs ", err)
		}
	}
	const begins = "=== failed in: generated code is current" // the programs are as they should be
	for name, c := range map[string]struct {
		golang, node, without string
		says                  string
		installs              bool // procps
	}{
		"complete":    {"go1.26", "20.0.0", "", begins, false},
		"newer":       {"go1.30.1", "24.1.2", "", begins, false},
		"no ps":       {"go1.26", "20.0.0", "ps", begins, true},
		"old Go":      {"go1.25.9", "20.0.0", "", "Go is version 1.25.9: acphost is built with Go 1.26 or newer", false},
		"old Node":    {"go1.26", "18.20.4", "", "Node is version 18.20.4: acphost is built with Node 20 or newer", false},
		"no Node":     {"go1.26", "20.0.0", "node", "node is not installed: acphost is built with Go 1.26, Node 20, make and git", false},
		"no compiler": {"go1.26", "20.0.0", "fakecc", "fakecc is not installed: Go's race detector is linked by a C compiler", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			bin, installed := filepath.Join(home, "bin"), filepath.Join(home, "installed")
			if err := os.Mkdir(bin, 0o700); err != nil {
				t.Fatal(err)
			}
			for name, program := range tools {
				if err := os.Symlink(program, filepath.Join(bin, name)); err != nil {
					t.Fatal(err)
				}
			}
			programs := map[string]string{
				"go":   `case $2 in GOVERSION) echo ` + c.golang + `;; CC) echo fakecc;; esac`,
				"node": `echo ` + c.node, "uname": `echo Linux`, "id": `echo 0`, "make": `exit 1`, "apt-get": `echo "$*" >>"` + installed + `"`,
			}
			for _, name := range []string{"npm", "git", "fakecc", "tmux", "jq", "ps", "bwrap", "chromium-headless-shell", "systemd-analyze", "python3"} {
				programs[name] = "exit 0"
			}
			delete(programs, c.without)
			for name, lines := range programs {
				if err := os.WriteFile(filepath.Join(bin, name), []byte("#!"+tools["bash"]+"\n"+lines+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			cmd := wire.Command(t, tools["bash"], script)
			cmd.Env = []string{"PATH=" + bin, "HOME=" + home, "GATE_RUNS=1"}
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.says) {
				t.Errorf("the script ends with %v, and prints\n%s\nwant %q", err, out, c.says)
			}
			log, _ := os.ReadFile(installed)
			if got := strings.Contains(string(log), " procps\n"); got != c.installs {
				t.Errorf("procps is installed: %v, want %v; apt-get was called with\n%s", got, c.installs, log)
			}
		})
	}
}
