package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestDemo_RunsTurn(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	cmd := wire.Command(t, e2e.Program("acphost"), "demo")
	cmd.Env = p.Env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("acphost demo: %v\n%s", err, out)
	}
	e2e.ExpectContains(t, "the story", string(out), "fsd", "termd", "permd", "fs/read_text_file", "session/request_permission",
		"fs/write_text_file", "terminal/create", "stay-inside", "none of")
	if strings.Contains(string(out), "\x1b") {
		t.Error("the story has colours though it goes to no terminal")
	}
	if left, err := os.ReadDir(filepath.Join(p.Home, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("the demo leaves %v (%v)", left, err)
	}
}

func TestDemo_FailsIfTurnFails(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"a daemon is missing": func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "fsd")); err != nil {
				t.Fatal(err)
			}
		},
		"a daemon is another": func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, "permd"), filepath.Join(dir, "termd")); err != nil {
				t.Fatal(err)
			}
		},
		"the agent does nothing": func(t *testing.T, dir string) {
			agent := filepath.Join(dir, "demoagent")
			if err := os.Remove(agent); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(agent, []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := e2e.NewPlace(t)
			dir := filepath.Join(p.Home, "bin")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"acphost", "fsd", "termd", "permd", "demoagent"} {
				content, err := os.ReadFile(e2e.Program(name))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), content, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			spoil(t, dir)
			cmd := wire.Command(t, filepath.Join(dir, "acphost"), "demo")
			cmd.Env = p.Env()
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Errorf("the demo succeeds:\n%s", out)
			}
			e2e.ExpectContains(t, "the story", string(out), "failed")
		})
	}
}
