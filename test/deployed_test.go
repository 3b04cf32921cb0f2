package e2e_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// The configurations in deploy/ are read as acphost reads them; their keys and sockets are made where they are deployed.
func TestDeployedConfigurationsAreRead(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
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
		if code, out, errs := p.cli(t, "config", "show", "--config", file); code != 0 || !strings.Contains(out, "unreadable") {
			t.Errorf("%s: status %d\n%s%s", file, code, out, errs)
		}
	}
	if code, out, errs := p.cli(t, "policy", "check", filepath.Join(deploy, "kubernetes", "policy.yaml")); code != 0 || strings.Contains(out+errs, "warning") {
		t.Errorf("the policy: status %d\n%s%s", code, out, errs)
	}
}
