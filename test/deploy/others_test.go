package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
)

func TestComposeFile_IsValid(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{"../../deploy/compose.yaml"}, cli.WithEnv([]string{"AGENT_IMAGE=agent", "ACPHOST_VERSION=1.2.3", "WORKSPACE_USER=1234"}))
	if err != nil {
		t.Fatal(err)
	}
	p, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range p.Services {
		if s.Privileged || !slices.Equal(s.CapDrop, []string{"ALL"}) || !s.ReadOnly || len(s.CapAdd) > 0 {
			t.Errorf("%s may more than it should", name)
		}
		for _, v := range s.Volumes {
			if strings.HasSuffix(v.Source, "policy.yaml") != (name == "permd" && v.Target == "/etc/acphost/policy.yaml") {
				t.Errorf("%s has %s", name, v.Source)
			}
			if strings.Contains(v.Source, "/keys/") && !v.ReadOnly {
				t.Errorf("%s may write %s", name, v.Source)
			}
			if v.Type == "bind" && !strings.Contains(v.Source, "/keys/") && !strings.HasSuffix(v.Source, "/workspace") && !strings.HasSuffix(v.Source, "/state") {
				if _, err := os.Stat(v.Source); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
	if got := p.Services["fsd"].Image; got != "localhost/acphost/fsd:1.2.3" {
		t.Errorf("fsd's image is %s, want the one of the release", got)
	}
	if got := p.Services["fsd"].User; got != "1234:1234" {
		t.Errorf("fsd runs as %s", got)
	}
	for name := range p.Services["agent"].DependsOn {
		if _, ok := p.Services[name]; !ok {
			t.Errorf("agent waits for %s, which there is not", name)
		}
	}
	if !strings.Contains(p.Configs["acphost"].Content, "uid: 1234") {
		t.Errorf("the configuration is %s", p.Configs["acphost"].Content)
	}
	// Both forms of the same Pod have the same rules for who may call.
	if without, err := cli.NewProjectOptions([]string{"../../deploy/compose.yaml"}, cli.WithEnv([]string{"ACPHOST_VERSION=1.2.3"})); err != nil {
		t.Fatal(err)
	} else if _, err := without.LoadProject(t.Context()); err == nil || !strings.Contains(err.Error(), "the image of the agent") {
		t.Errorf("without an image: %v", err)
	}
}

func TestUnits_AreValid(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Fatal("systemd-analyze is not installed: apt-get install systemd")
	}
	for _, kind := range []string{"system", "user"} {
		dir := t.TempDir()
		units, err := filepath.Glob("../../deploy/systemd/" + kind + "/acphost*.[s]*")
		if err != nil || len(units) < 2 {
			t.Fatalf("the units are %v (%v)", units, err)
		}
		args := []string{"verify", "--man=no"}
		for _, unit := range units {
			text, err := os.ReadFile(unit)
			if err != nil {
				t.Fatal(err)
			}
			// The programs are installed by a package, and not on this machine.
			text = regexp.MustCompile(`/usr/bin/(acphost|fsd|termd|permd)\b`).ReplaceAll(text, []byte("/bin/true"))
			name := filepath.Join(dir, filepath.Base(unit))
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, name)
		}
		if out, err := exec.Command(verify, args...).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

func TestUnits_UsersMatchConfiguration(t *testing.T) {
	sysusers, err := exec.LookPath("systemd-sysusers")
	if err != nil {
		t.Fatal("systemd-sysusers is not installed: apt-get install systemd")
	}
	file, err := filepath.Abs("../../deploy/systemd/system/acphost-users.conf")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(sysusers, "--root="+root, file).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	passwd, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if err != nil {
		t.Fatal(err)
	}
	users := map[string]string{}
	for line := range strings.Lines(string(passwd)) {
		fields := strings.Split(line, ":")
		users[fields[0]] = fields[2]
	}
	config, err := os.ReadFile("../../deploy/systemd/system/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range []string{"acphost-fsd", "acphost-termd", "acphost-permd"} {
		text, err := os.ReadFile("../../deploy/systemd/system/" + unit + ".service")
		if err != nil {
			t.Fatal(err)
		}
		user := regexp.MustCompile(`(?m)^User=(.*)$`).FindSubmatch(text)
		if user == nil || users[string(user[1])] == "" {
			t.Errorf("%s runs as an unknown user: %q", unit, user)
			continue
		}
		socket := regexp.MustCompile(`(?m)--listen=(unix://\S+)`).FindSubmatch(text)
		want := regexp.MustCompile(`address: ` + regexp.QuoteMeta(string(socket[1])) + `\n\s+uid: ` + users[string(user[1])] + `\b`)
		if !want.Match(config) {
			t.Errorf("config.yaml expects %s elsewhere, or as another user: want %s", unit, want)
		}
	}
}
