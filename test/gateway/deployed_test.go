package gateway_test

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// TestDeployedConfigurations_Load loads the configurations in deploy/, with keys and sockets made for the test.
func TestDeployedConfigurations_Load(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	deploy, err := filepath.Abs("../deploy")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(deploy + "/*/config.yaml")
	more, _ := filepath.Glob(deploy + "/*/*/config.yaml")
	if files = append(files, more...); err != nil || len(files) != 2 {
		t.Fatalf("the configurations are %q (%v)", files, err)
	}
	for _, file := range files {
		if code, out, errs := p.Cli(t, "config", "show", "--config", file); code != 0 || !strings.Contains(out, "unreadable") {
			t.Errorf("%s: status %d\n%s%s", file, code, out, errs)
		}
	}
	if code, out, errs := p.Cli(t, "policy", "check", filepath.Join(deploy, "kubernetes", "policy.yaml")); code != 0 || strings.Contains(out+errs, "warning") {
		t.Errorf("the policy: status %d\n%s%s", code, out, errs)
	}
}

// TestKeysScript_NamesHostsAndRoles runs deploy/kubernetes/keys.sh.
func TestKeysScript_NamesHostsAndRoles(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	script, err := filepath.Abs("../deploy/kubernetes/keys.sh")
	if err != nil {
		t.Fatal(err)
	}
	keys := func(args ...string) (string, error) {
		t.Helper()
		cmd := wire.Command(t, "sh", append([]string{script}, args...)...)
		cmd.Dir, cmd.Env = p.Work, p.Env("ACPHOST="+e2e.Program("acphost"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	certificate := func(name ...string) *x509.Certificate {
		t.Helper()
		block, _ := pem.Decode(e2e.Must(t, filepath.Join(append([]string{p.Work}, name...)...)))
		if block == nil {
			t.Fatalf("%s holds no certificate", name)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	if out, err := keys("--agent", "helper", "--namespace", "build", "--host", "acp.example.org", "--host", "192.0.2.7", "made"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server := certificate("made", "callers", "server", "server.crt")
	for _, host := range []string{"localhost", "helper", "helper.build", "helper.build.svc", "helper.build.svc.cluster.local", "acp.example.org", "192.0.2.7"} {
		if err := server.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	for _, host := range []string{"agent", "helper.default.svc"} {
		if server.VerifyHostname(host) == nil {
			t.Errorf("the certificate is good for %s, which nothing names", host)
		}
	}
	for _, role := range []string{"viewer", "approver", "operator", "metrics", "gateway"} {
		if cert := certificate("made", "callers", role, "client.crt"); len(cert.URIs) == 0 || cert.URIs[0].String() != "acphost:role:"+role {
			t.Errorf("the certificate of %s has %v", role, cert.URIs)
		}
	}
	if out, err := keys("made"); err != nil || certificate("made", "callers", "server", "server.crt").SerialNumber.Cmp(server.SerialNumber) != 0 {
		t.Errorf("the second time: %v, %s; want that the keys stay", err, out)
	}
	same := []string{"--agent", "helper", "--namespace", "build", "--host", "192.0.2.7", "made"}
	if out, err := keys(same...); err != nil {
		t.Errorf("the names that it has: %v, %s", err, out)
	}
	for late, args := range map[string][]string{
		"late.example.org": {"--host", "late.example.org"}, "example.org": {"--host", "example.org"}, "other": {"--agent", "other"}, "helper.late": {"--agent", "helper", "--namespace", "late"},
	} {
		if out, err := keys(append(args, "made")...); err == nil || !strings.Contains(out, "was not made for "+late+": remove that folder") {
			t.Errorf("keys.sh %q on existing keys: %v, %s; want an error that the certificate was not made for %s", args, err, out, late)
		}
	}
	for _, host := range []string{"bad host", "bad*host", "", "late.example.org:443"} {
		if out, err := keys("--host", host, "none"); err == nil || !strings.Contains(out, fmt.Sprintf("got %q", host)) {
			t.Errorf("--host %q: %v, %s; want an error about the host", host, err, out)
		}
		if _, err := os.Lstat(filepath.Join(p.Work, "none")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("--host %q: the folder is there (%v), want that nothing is made", host, err)
		}
	}
	for _, flag := range []string{"-h", "--help"} {
		if out, err := keys(flag); err != nil || !strings.Contains(out, "usage: keys.sh") || !strings.Contains(out, "--namespace NAMESPACE ") {
			t.Errorf("keys.sh %s: %v, %s; want the usage and status 0", flag, err, out)
		}
	}
	for want, args := range map[string][]string{
		"--host needs a value": {"--host"}, "unknown flag --hosts": {"--hosts", "x"}, "more than one folder": {"one", "two"},
	} {
		if out, err := keys(args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("keys.sh %q: %v, %s, want %s", args, err, out, want)
		}
	}
}
