package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestKeysAreMadeAndSaidWhatToDoWith(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls keys")
	status, stdout, stderr := (&call{}).run(t, "certs", "init", dir, "--host", "build.example.org", "--client", "ci:viewer", "--client", "me:operator", "--days", "30")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	golden(t, "certs-init.txt", strings.ReplaceAll(stdout, dir, "/tls keys"))
	status, stdout, stderr = (&call{}).run(t, "certs", "client", dir, "board:approver")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	golden(t, "certs-client.txt", strings.ReplaceAll(stdout, dir, "/tls keys"))

	status, stdout, stderr = (&call{}).run(t, "certs", "renew", dir)
	if want := "renewed DIR/server.crt\nrenewed DIR/board/client.crt\nrenewed DIR/ci/client.crt\nrenewed DIR/me/client.crt\n"; status != 0 || strings.ReplaceAll(stdout, dir, "DIR") != want {
		t.Errorf("status %d, %q, want %q: %s", status, stdout, want, stderr)
	}

	for want, args := range map[string][]string{
		"expected an authority's folder, ": {"renew"},
		"nothing is overwritten":           {"init", dir},
		"board is there already":           {"client", dir, "board:viewer"},
		"expected the folder to make":      {"init"},
		"--client: expected NAME:ROLE":     {"init", dir + "2", "--client", "x"},
		`"root" is no role; there are vi`:  {"client", dir, "x:root"},
		"expected an authority's folder":   {"client", dir},
		"no folder of an authority":        {"client", t.TempDir(), "x:viewer"},
		"1 to 3650 days":                   {"init", dir + "2", "--days", "99999"},
	} {
		if status, _, stderr := (&call{}).run(t, append([]string{"certs"}, args...)...); status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q; want %q", args, status, stderr, want)
		}
	}
}

func TestKeysThatWereMadeReachASupervisor(t *testing.T) {
	p := &played{pid: 11, mode: "serve"}
	address, keys := playTLS(t, p)
	as := func(who string) []string {
		return []string{"--address", address, "--tls-dir", filepath.Join(keys, who)}
	}
	run := func(who string, args ...string) (int, string) {
		status, stdout, stderr := (&call{}).run(t, append(args, as(who)...)...)
		return status, stdout + stderr
	}
	for _, c := range []struct {
		who    string
		args   []string
		status int
		want   string
	}{
		{"viewer", []string{"agents", "running"}, 0, "gemini-1"},
		{"viewer", []string{"approvals", "list"}, 0, "gemini-1/7"},
		{"viewer", []string{"terminals", "tail", "acphost-1f"}, 0, "red end"},
		{"viewer", []string{"approvals", "answer", "gemini-1/7", "yes"}, 1, "this takes the role approver"},
		{"viewer", []string{"agents", "stop", "gemini-1"}, 1, "this takes the role operator"},
		{"approver", []string{"approvals", "answer", "gemini-1/7", "yes"}, 0, "allowed"},
		{"approver", []string{"agents", "start", "gemini"}, 1, "this takes the role operator"},
		{"operator", []string{"agents", "start", "gemini"}, 0, "started"},
	} {
		if status, text := run(c.who, c.args...); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s, %q: status %d, %q; want %d and %q", c.who, c.args, status, text, c.status, c.want)
		}
	}
	if got := p.answered.GetAnsweredBy(); got != "approver" {
		t.Errorf("answered by %q, want the certificate's name", got)
	}
}
