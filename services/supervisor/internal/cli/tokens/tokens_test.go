package tokens

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/tokens"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

func TestTokensCreate_StoresHash(t *testing.T) {
	home := t.TempDir()
	run := func(args ...string) (int, string, string) {
		t.Helper()
		return (&commandtest.Call{Env: map[string]string{"HOME": home}}).Run(t, New, append([]string{"tokens"}, args...)...)
	}
	status, secret, stderr := run("create", "--role", "operator", "--name", "laptop", "--expires", "1h")
	secret = strings.TrimSpace(secret)
	if status != 0 || len(secret) < 50 || strings.Contains(stderr, secret) {
		t.Fatalf("status %d, %q, %q", status, secret, stderr)
	}
	path := filepath.Join(home, ".local", "state", "acphost", "tokens.json")
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), secret) || strings.Contains(string(text), strings.TrimPrefix(secret, "acphost_")) {
		t.Errorf("the file is %s (%v)", text, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v (%v)", info.Mode(), err)
	}
	all, err := tokens.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	found, ok := all.Find(secret, time.Now())
	if !ok || found.Role != "operator" || found.Name != "laptop" {
		t.Errorf("found %+v, %v", found, ok)
	}
	for _, args := range [][]string{{"list"}, {"list", "--json"}} {
		status, out, _ := run(args...)
		if status != 0 || !strings.Contains(out, found.ID) || !strings.Contains(out, "laptop") || strings.Contains(out, found.Hash) {
			t.Errorf("%q: %d, %s", args, status, out)
		}
		if args[len(args)-1] == "--json" && !json.Valid([]byte(out)) {
			t.Errorf("no JSON: %s", out)
		}
	}
	if status, _, stderr := run("revoke", found.ID, "ffffffffffff"); status == 0 || !strings.Contains(stderr, `no token "ffffffffffff"`) {
		t.Errorf("revoking an unknown one: %d, %s", status, stderr)
	}
	if all, err := tokens.Read(path); err != nil || len(all) != 1 {
		t.Errorf("something was revoked: %v (%v)", all, err)
	}
	if status, out, _ := run("revoke", found.ID); status != 0 || out != "revoked "+found.ID+"\n" {
		t.Errorf("revoking: %d, %s", status, out)
	}
	if all, err := tokens.Read(path); err != nil || len(all) != 0 {
		t.Errorf("there are %v (%v)", all, err)
	}
}

func TestTokens_RefuseAgents(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "tokens.json")
	for _, args := range [][]string{{"create", "--role", "operator"}, {"revoke", "x"}} {
		status, stdout, stderr := (&commandtest.Call{Agent: true}).Run(t, New, append([]string{"tokens"}, append(args, "--file", file)...)...)
		if status == 0 || stdout != "" || !strings.Contains(stderr, "is for people") {
			t.Errorf("%q: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("there is a file")
	}
}

func TestTokensCreate_UsageErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "tokens.json")
	for want, args := range map[string][]string{
		"--role: expected one of viewer": {"create"},
		`got "root"`:                     {"create", "--role", "root"},
		"--expires: expected":            {"create", "--role", "viewer", "--expires", "-1h"},
		"--name: expected":               {"create", "--role", "viewer", "--name", "a\x1b[0m"},
		"the id of a token is missing":   {"revoke"},
	} {
		if status, out, stderr := (&commandtest.Call{}).Run(t, New, append([]string{"tokens"}, append(args, "--file", file)...)...); status == 0 || out != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: %d, %q, %q, want %q", args, status, out, stderr, want)
		}
	}
}

func TestTokensCreate_ConcurrentCallsKeepAll(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "tokens.json")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if status, _, stderr := (&commandtest.Call{}).Run(t, New, "tokens", "create", "--role", "viewer", "--file", file); status != 0 {
				t.Error(stderr)
			}
		})
	}
	wg.Wait()
	if all, err := tokens.Read(file); err != nil || len(all) != 8 {
		t.Errorf("there are %d (%v)", len(all), err)
	}
}
