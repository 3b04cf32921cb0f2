package agent

import (
	"os"
	"path/filepath"
	"slices"
)

// DemoAgent is the scripted agent of the documentation, a program of every release.
const DemoAgent = "demoagent"

// findDemoAgent returns the command with the path of the demo agent beside acphost's own program, if the command names the demo
// agent without a path and it is there. Its folder is often not in PATH: npm puts acphost alone there. Other commands are returned
// as they are.
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
