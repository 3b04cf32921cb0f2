package certs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

func TestCertsInit_WritesKeysAndPrintsUsage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls keys")
	status, stdout, stderr := (&commandtest.Call{}).Run(t, New, "certs", "init", dir, "--host", "build.example.org", "--client", "ci:viewer", "--client", "me:operator", "--days", "30")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	testkit.Golden(t, "certs-init.txt", strings.ReplaceAll(stdout, dir, "/tls keys"))
	status, stdout, stderr = (&commandtest.Call{}).Run(t, New, "certs", "client", dir, "board:approver")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	testkit.Golden(t, "certs-client.txt", strings.ReplaceAll(stdout, dir, "/tls keys"))

	status, stdout, stderr = (&commandtest.Call{}).Run(t, New, "certs", "gateway", dir, "--name", "edge")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	testkit.Golden(t, "certs-gateway.txt", strings.ReplaceAll(stdout, dir, "/tls keys"))

	status, stdout, stderr = (&commandtest.Call{}).Run(t, New, "certs", "gateway", dir+"-2", "--acts-as", "approver")
	if status == 0 || !strings.Contains(stderr, "no folder of an authority") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	status, stdout, stderr = (&commandtest.Call{}).Run(t, New, "certs", "renew", dir)
	if want := "renewed DIR/server/server.crt\nrenewed DIR/board/client.crt\nrenewed DIR/ci/client.crt\nrenewed DIR/edge/client.crt\nrenewed DIR/me/client.crt\n"; status != 0 || strings.ReplaceAll(stdout, dir, "DIR") != want {
		t.Errorf("status %d, %q, want %q: %s", status, stdout, want, stderr)
	}

	sidecar := filepath.Join(t.TempDir(), "fs")
	for name, args := range map[string][]string{
		"certs-sidecar.txt":        {"fs", sidecar, "--host", "fd00::7"},
		"certs-sidecar-policy.txt": {"permission", sidecar + "-p"},
	} {
		if status, stdout, stderr = (&commandtest.Call{}).Run(t, New, append([]string{"certs", "sidecar"}, args...)...); status != 0 || stderr != "" {
			t.Fatalf("status %d: %s", status, stderr)
		}
		testkit.Golden(t, name, strings.ReplaceAll(stdout, sidecar, "/keys"))
	}

	for want, args := range map[string][]string{
		"can call the sidecar past every ":                    {"client", sidecar, "me:viewer"},
		"a handler's name has 1 to 64":                        {"sidecar", "../fs"},
		"expected a handler's name":                           {"sidecar"},
		"expected an authority's folder, ":                    {"renew"},
		"nothing is overwritten":                              {"init", dir},
		"board is there already":                              {"client", dir, "board:viewer"},
		"expected the folder to make":                         {"init"},
		"--acts-as: expected viewer, appr":                    {"gateway", dir, "--acts-as", "gateway"},
		"--acts-as: expected viewer, approver, operator, got": {"gateway", dir, "--acts-as", "root"},
		"--client: expected NAME:ROLE":                        {"init", dir + "2", "--client", "x"},
		`"root" is no role; there are vi`:                     {"client", dir, "x:root"},
		"expected an authority's folder":                      {"client", dir},
		"no folder of an authority":                           {"client", t.TempDir(), "x:viewer"},
		"from 1 to 3650;":                                     {"init", dir + "2", "--days", "99999"},
	} {
		if status, _, stderr := (&commandtest.Call{}).Run(t, New, append([]string{"certs"}, args...)...); status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q; want %q", args, status, stderr, want)
		}
	}
}

func TestDays_AreAtLeastOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	if status, _, stderr := (&commandtest.Call{}).Run(t, New, "certs", "init", dir); status != 0 {
		t.Fatal(stderr)
	}
	for _, args := range [][]string{{"init", dir + "2"}, {"sidecar", "fs", dir + "2"}, {"client", dir, "me:operator"}, {"gateway", dir}, {"renew", dir}} {
		for _, days := range []string{"0", "-1", "3651", "", "a"} {
			status, stdout, stderr := (&commandtest.Call{}).Run(t, New, append(append([]string{"certs"}, args...), "--days="+days)...)
			if status != command.StatusUsage || stdout != "" || !strings.Contains(stderr, "--days") || !strings.Contains(stderr, "expected a number of days from 1 to 3650") {
				t.Errorf("%q --days=%s: status %d, %q, %q", args, days, status, stdout, stderr)
			}
		}
	}
	if _, err := os.Stat(dir + "2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("certificates were made: %v", err)
	}
}

func TestCerts_RefusesAgents(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	if status, _, stderr := (&commandtest.Call{}).Run(t, New, "certs", "init", dir); status != 0 {
		t.Fatal(stderr)
	}
	for _, args := range [][]string{{"init", dir + "2"}, {"sidecar", "fs", dir + "2"}, {"client", dir, "me:operator"}, {"gateway", dir}, {"renew", dir}} {
		status, stdout, stderr := (&commandtest.Call{Agent: true}).Run(t, New, append([]string{"certs"}, args...)...)
		if status == 0 || stdout != "" || !strings.Contains(stderr, "is for people") {
			t.Errorf("certs %q: status %d, %q, %q", args, status, stdout, stderr)
		}
	}
}
