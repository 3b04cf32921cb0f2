package pod

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

// composeUser is the user who types the commands of docs/deploy.md.
const composeUser = "1000"

// documentedCompose returns the lines that docs/deploy.md has people type before they start Compose, and the variables
// in the line that starts it.
func documentedCompose(t *testing.T) (lines []string, env map[string]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)\n## Docker Compose\n.*?```sh\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/deploy.md does not state how to start Compose")
	}
	env = map[string]string{}
	for line := range strings.Lines(string(block[1])) {
		line = strings.TrimSpace(line)
		before, isUp := strings.CutSuffix(line, "docker compose -f deploy/compose.yaml up")
		if !isUp {
			lines = append(lines, line)
			continue
		}
		for _, variable := range strings.Fields(strings.ReplaceAll(before, "$(id -u)", composeUser)) {
			name, value, _ := strings.Cut(variable, "=")
			env[name] = value
		}
	}
	if len(lines) == 0 || env["AGENT_IMAGE"] == "" || env["ACPHOST_VERSION"] == "" {
		t.Fatalf("docs/deploy.md has the lines %q and the variables %v", lines, env)
	}
	return lines, env
}

// composed follows the instructions of docs/deploy.md in a copy of deploy/: it runs lines that begin with sudo as root,
// others as an ordinary user. It returns the folder, and Compose's file as a Pod of the agent of the demo.
func composed(t *testing.T) (dir string, m *Manifest) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("containers of several users are started by root alone: run this as root")
	}
	if err := prepared(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(work, "compose-") //nolint:usetesting // below work, which the users of the containers can enter
	if err != nil {
		t.Fatal(err)
	}
	programs := filepath.Join(dir, "programs")
	for _, command := range [][]string{
		{"cp", "-R", "../../deploy", dir}, {"mkdir", programs}, {"cp", filepath.Join(bin, "acphost"), programs}, {"chown", "-R", composeUser + ":" + composeUser, dir},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v %s", command, err, out)
		}
	}
	lines, env := documentedCompose(t)
	for _, line := range lines {
		command := []string{"setpriv", "--reuid", composeUser, "--regid", composeUser, "--clear-groups", "sh", "-euc", line}
		if rest, ok := strings.CutPrefix(line, "sudo "); ok {
			command = []string{"sh", "-euc", rest}
		}
		cmd := exec.CommandContext(testkit.Context(t), command[0], command[1:]...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + programs + ":/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + dir}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	env["AGENT_IMAGE"] = "agent"
	if m, err = LoadCompose(filepath.Join(dir, "deploy", "compose.yaml"), t.TempDir(), env); err != nil {
		t.Fatal(err)
	}
	agent := &m.Spec.Containers[0]
	agent.Args = slices.Concat(agent.Args[:slices.Index(agent.Args, "--")+1], []string{"/opt/agent/demoagent"})
	return dir, m
}

// up starts what composed has made.
func up(t *testing.T, dir string, m *Manifest) *running {
	t.Helper()
	r := &running{t: t, keys: filepath.Join(dir, "deploy", "kubernetes", "keys"), workspace: filepath.Join(dir, "deploy", "workspace"), user: composeUser, ctx: testkit.Context(t)}
	r.Pod = Start(t, m, shared)
	r.Client = r.caller("operator")
	return r
}

func TestCompose_DocumentedCommandsWork(t *testing.T) {
	dir, m := composed(t)
	r := up(t, dir, m)
	a := r.agent()
	r.works(a, r.open(a), "a.txt")
	r.Delete()

	// Records remain after the containers have been removed, and new containers start with the same folders.
	audit, err := os.ReadFile(filepath.Join(dir, "deploy", "state", "acphost", "audit.jsonl"))
	if err != nil || !strings.Contains(string(audit), "/workspace/a.txt") {
		t.Errorf("the record of decisions in deploy/state has %.200q (%v), want the file that was written", audit, err)
	}
	again := up(t, dir, m)
	a = again.agent()
	again.works(a, again.open(a), "b.txt")
}

func TestCompose_ReloadsRenewedKeys(t *testing.T) {
	dir, m := composed(t)
	keys := filepath.Join(dir, "deploy", "kubernetes", "keys")
	for _, name := range []string{"fs", "terminal", "permission", "callers"} {
		if out, err := exec.Command(filepath.Join(bin, "acphost"), "certs", "renew", filepath.Join(keys, name)).CombinedOutput(); err != nil {
			t.Fatalf("renew %s: %v\n%s", name, err, out)
		}
	}
	r := up(t, dir, m)
	a := r.agent()
	r.works(a, r.open(a), "a.txt")
}
