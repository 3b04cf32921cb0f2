package main

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentation_ShowsProgram compares docs/plugins.md with main.go, and limits the length of the program.
func TestDocumentation_ShowsProgram(t *testing.T) {
	page, err := os.ReadFile("../../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "\n```go\n"+string(program)+"```\n") {
		t.Error("docs/plugins.md does not show main.go word for word")
	}
	if n := strings.Count(string(program), "\n"); n >= 60 {
		t.Errorf("main.go has %d lines; under 60 are promised", n)
	}
}
