package main

import (
	"os"
	"strings"
	"testing"
)

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
}
