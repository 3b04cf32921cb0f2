package proc_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
)

// capabilitiesOf runs a shell behind walls and returns its sets of capabilities by name.
func capabilitiesOf(t *testing.T, c proc.Confinement, credential *syscall.Credential) map[string]string {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "grep ^Cap /proc/self/status")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	cmd.Dir = "/"
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := proc.Confine(c, func(proc.Restrictions) error { return cmd.Start() }); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, m := range regexp.MustCompile(`(Cap\w+):\s+(\w+)`).FindAllStringSubmatch(out.String(), -1) {
		got[m[1]] = m[2]
	}
	if len(got) != 5 {
		t.Fatalf("the process shows %q", out.String())
	}
	return got
}

const noCapability = "0000000000000000"

func TestConfine_DropsCapabilitiesOfRoot(t *testing.T) {
	needsConfine(t)
	got := capabilitiesOf(t, proc.Confinement{}, nil)
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		if got[set] != noCapability {
			t.Errorf("%s is %s, want none", set, got[set])
		}
	}
	if os.Geteuid() == 0 && got["CapBnd"] != noCapability {
		t.Errorf("CapBnd is %s, want none", got["CapBnd"])
	}
}

func TestConfine_KeepsConfiguredCapabilities(t *testing.T) {
	needsConfine(t)
	if os.Geteuid() != 0 {
		t.Skip("only root has capabilities to keep")
	}
	keep, err := proc.ParseCapabilities([]string{"CHOWN", "cap_net_bind_service"})
	if err != nil {
		t.Fatal(err)
	}
	got := capabilitiesOf(t, proc.Confinement{Keep: keep}, nil)
	for _, set := range []string{"CapPrm", "CapEff", "CapBnd"} {
		if want := "0000000000000401"; got[set] != want {
			t.Errorf("%s is %s, want %s", set, got[set], want)
		}
	}
}

func TestConfine_StartsAsAnotherUser(t *testing.T) {
	needsConfine(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process as another user")
	}
	got := capabilitiesOf(t, proc.Confinement{ChangesUser: true}, &syscall.Credential{Uid: 65534, Gid: 65534})
	for set, value := range got {
		if value != noCapability {
			t.Errorf("%s is %s, want none", set, value)
		}
	}
}

func TestParseCapabilities_RejectsUnknownName(t *testing.T) {
	if _, err := proc.ParseCapabilities([]string{"CHOWN", "FLY"}); err == nil {
		t.Error("FLY was taken for a capability")
	}
}
