package day

import (
	"bytes"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"
)

var (
	//go:embed base.sh
	baseScript string
	//go:embed day.yaml
	dayYAML []byte
	//go:embed git.yaml
	gitYAML []byte
)

// step is a single action of an agent.
type step struct {
	Name string `yaml:"name"`
	// Run is the line that the agent sends. It runs in the workspace.
	Run string `yaml:"run"`
	// Setup are lines that a shell runs in the workspace before, without acphost.
	Setup string `yaml:"setup"`
	// Beside is a line that the user runs in another shell, without acphost, before the agent begins. It prints "ready",
	// and ends after its standard input.
	Beside string `yaml:"beside"`
	// Needs are the programs without which the step is skipped.
	Needs []string `yaml:"needs"`
	// Looks: the step changes nothing.
	Looks bool `yaml:"looks"`
	// Crosses is the reason why a question about the step is expected. Default: none is.
	Crosses string `yaml:"crosses"`
}

func load(t testing.TB, file []byte) (steps []step) {
	t.Helper()
	dec := yaml.NewDecoder(bytes.NewReader(file))
	dec.KnownFields(true)
	if err := dec.Decode(&steps); err != nil {
		t.Fatal(err)
	}
	return steps
}

func (s *step) usesGo() bool { return slices.Contains(s.Needs, "go") }

// lacks returns the programs that the step needs and that are not installed.
func (s *step) lacks() []string {
	return slices.DeleteFunc(slices.Clone(s.Needs), func(program string) bool {
		return slices.ContainsFunc(filepath.SplitList(searched()), func(dir string) bool {
			_, err := exec.LookPath(filepath.Join(dir, program))
			return err == nil
		})
	})
}

// searched returns PATH without folders of the user's home, whose programs may need that home, and with Rust's own
// programs in place of rustup's.
var searched = sync.OnceValue(func() string {
	home, _ := os.UserHomeDir()
	dirs := slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(dir string) bool { return home != "" && strings.HasPrefix(dir, home+"/") })
	if rust, err := exec.Command("rustc", "--print", "sysroot").Output(); err == nil {
		dirs = append(dirs, filepath.Join(strings.TrimSpace(string(rust)), "bin"))
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
})
