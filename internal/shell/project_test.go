package shell_test

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/shell"
)

func TestRunsProject_Commands(t *testing.T) {
	for _, line := range []string{"go test ./...", "go run .", "npm test", "make", "pytest -q", "python3 -m pytest", "./gradlew test", "cargo test", "sh x.sh"} {
		if !shell.RunsProject(strings.Fields(line)) {
			t.Errorf("%s", line)
		}
	}
	for _, line := range []string{"", "git status", "/usr/bin/git status", "go vet ./...", "go build", "go", "ls", "gofmt -l .", "cat x", "touch x"} {
		if shell.RunsProject(strings.Fields(line)) {
			t.Errorf("%s does not run the project's code", line)
		}
	}
}
