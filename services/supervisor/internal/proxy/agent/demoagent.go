package agent

import (
	"os"
	"path/filepath"
	"slices"
)

// DemoAgent is the scripted agent of the documentation, which every release contains.
const DemoAgent = "demoagent"

// findDemoAgent replaces the program "demoagent" in a command by its path in the folder of acphost's own program, if it
// exists there. That folder is often not in PATH: npm puts only acphost there. It returns other commands unchanged.
func findDemoAgent(command []string) []string {
	if command[0] != DemoAgent {
		return command
	}
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return command
	}
	beside := filepath.Join(filepath.Dir(exe), DemoAgent)
	if info, err := os.Stat(beside); err != nil || !info.Mode().IsRegular() {
		return command
	}
	return slices.Concat([]string{beside}, command[1:])
}
