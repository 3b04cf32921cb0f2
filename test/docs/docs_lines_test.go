package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

// notRun are the lines of the documentation that TestDocs_LinesOfEachPage does not run, by how they begin, and why.
var notRun = []struct{ page, line, why string }{
	{"README.md", "make ", "builds the project, or runs this test"},
	{"docs/agents.md", "acphost agents login claude", "needs the agent and an account"},
	{"docs/agents.md", "acphost chat --policy workspace", "needs the agent and an account"},
	{"docs/ci.md", "acphost chat --agent claude", "needs the agent and an account"},
	{"docs/ci.md", "grpcurl …", "is shortened"},
	{"docs/command-line.md", "acphost approvals answer K7QF2MXA", "needs a question: TestDocs_ScriptsWork answers one"},
	{"docs/command-line.md", "acphost terminals tail", "needs a terminal that runs"},
	{"docs/command-line.md", "acphost files --watch", "runs until it is ended: files_tmux_test.go"},
	{"docs/command-line.md", "acphost sessions watch", "runs until it is ended"},
	{"docs/configuration.md", "acphost agents login", "needs the agent and an account"},
	{"docs/configuration.md", "acphost run --agent claude", "needs the agent"},
	{"docs/deploy.md", "", "needs a cluster, containers or systemd: deployed_test.go, test/deploy and test/pod"},
	{"docs/install.md", "ssh-keygen", "needs a release: the tests of internal/tools/release run it"},
	{"docs/install.md", "sha256sum", "needs a release"},
	{"docs/install.md", "mkdir -p ~/.local", "needs a release"},
	{"docs/install.md", "sudo ", "needs a release and root"},
	{"docs/install.md", "npm ", "needs a release: the tests of internal/tools/release install it"},
	{"docs/install.md", "brew ", "needs a release"},
	{"docs/install.md", "go install", "needs a release"},
	{"docs/install.md", "acphost doctor", "judges the machine, which may have problems: doctor_test.go"},
	{"docs/install.md", "podman ", "needs a release"},
	{"docs/install.md", "docker ", "needs a release"},
	{"docs/install.md", "skopeo ", "needs a release"},
	{"docs/performance.md", "", "measures for hours"},
	{"docs/audit-log.md", "acphost grants revoke ID", "needs a remembered answer: policy_cli_test.go"},
	{"docs/audit-log.md", "acphost audit tail -f", "runs until it is ended"},
	{"docs/troubleshooting.md", "acphost policy why --approval", "needs a question: why_test.go"},
	{"docs/plugins.md", "", "builds a handler with the modules of a release: the tests of internal/tools/release, and python.sh"},
	{"docs/programs.md", "acphost serve", "runs until it is ended; this test's lines use one"},
	{"docs/file-activity.md", "acphost run --observe", "needs the agent"},
	{"docs/recordings.md", "acphost sessions show 4f1c --follow", "runs until it is ended"},
	{"docs/releasing.md", "", "needs a release"},
	{"docs/sidecars.md", "(umask 077; openssl", "writes below /etc: sidecar_test.go has such secrets elsewhere"},
	{"docs/sidecars.md", "permd --listen", "runs until it is ended: sidecar_test.go"},
	{"docs/sidecars.md", "termd --listen", "runs until it is ended: sidecar_test.go"},
	{"docs/sidecars.md", "fsd   --listen", "runs until it is ended: sidecar_test.go"},
	{"docs/sidecars.md", "acphost handler swap fs --address", "needs another user: sidecar_test.go"},
	{"docs/sidecars.md", "acphost grants revoke ID", "needs a remembered answer: policy_cli_test.go"},
}

// whyNot returns why a line is not run; "" if it is.
func whyNot(used map[int]bool, page, line string) string {
	for i, n := range notRun {
		if n.page == page && strings.HasPrefix(line, n.line) {
			used[i] = true
			return n.why
		}
	}
	return ""
}

// named matches a block that readers save as a file before they type the lines below it: its first line is a comment
// with the name.
var named = regexp.MustCompile(`^# ([\w-]+\.yaml)\n`)

// TestDocs_LinesOfEachPage runs each line that a page instructs people to type, in the order of the page, unless it is
// listed above with a reason. Other tests run the lines with grpcurl and whole scripts.
func TestDocs_LinesOfEachPage(t *testing.T) {
	t.Parallel()
	programs := filepath.Dir(e2e.Program("acphost"))
	p := e2e.NewPlace(t)
	rules := p.File(t, "new.yaml", "version: 1\nrules: []\n")
	for _, folder := range []string{"src", "agents", "programs", ".config/zed"} {
		if err := os.MkdirAll(filepath.Join(p.Home, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(p.Home, "src", "notes.md"), []byte("We will recieve the parts on Monday.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(e2e.Program("demoagent"), filepath.Join(p.Home, "agents", "gemini")); err != nil { // an agent that editors know
		t.Fatal(err)
	}
	// The folder of the programs is not in PATH, but links to what people type: demoagent is found beside acphost.
	for _, name := range []string{"acphost", "acphost-conformance", "gatewayd"} {
		if err := os.Symlink(e2e.Program(name), filepath.Join(p.Home, "programs", name)); err != nil {
			t.Fatal(err)
		}
	}
	tools := filepath.Join(p.Home, "programs") + string(os.PathListSeparator) + filepath.Join(p.Home, "agents")
	if out, err := p.Shell(t, tools, `acphost prompt --policy workspace "repeat hello: flaky test" -- demoagent`); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := p.Serve(t, []string{"--policy", "workspace"}, "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	if out, err := p.Shell(t, tools, "acphost agents start -- demoagent"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := p.Shell(t, tools, "acphost sessions list --json")
	recorded := regexp.MustCompile(`"session":"([^"]+)"`).FindStringSubmatch(out)
	if err != nil || recorded == nil {
		t.Fatalf("no session is recorded: %v\n%s", err, out)
	}
	session := recorded[1]
	used, ran := map[int]bool{}, 0
	for _, page := range pages(t) {
		if page == "docs/reference-command-line.md" { // examples of --help, without their surroundings
			continue
		}
		// A folder for each page: none needs what another one makes.
		folder := filepath.Join(p.Work, strings.ReplaceAll(page, "/", "-"))
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, to := range map[string]string{"my-policy": filepath.Join(programs, "permd"), "new.yaml": rules} {
			if err := os.Symlink(to, filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		}
		for _, block := range documented(t, page, "yaml") {
			if m := named.FindStringSubmatch(block); m != nil {
				if err := os.WriteFile(filepath.Join(folder, m[1]), []byte(block), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, language := range []string{"sh", "console"} {
			for _, block := range documented(t, page, language) {
				if language == "sh" && isScript(block) && (page == "docs/programs.md" || page == "docs/command-line.md") {
					continue // TestDocs_ScriptsWork runs it
				}
				for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
					line = strings.TrimSpace(line)
					if language == "console" {
						typed, is := strings.CutPrefix(line, "$ ")
						if !is { // what is printed
							continue
						}
						line = typed
					}
					if line == "" || whyNot(used, page, line) != "" || strings.HasPrefix(line, "grpcurl ") {
						continue
					}
					ran++
					typed := strings.NewReplacer("4f1c", session, "SESSION", session, "Run the tests.", "repeat done").Replace(line)
					out, err := p.Shell(t, tools, "cd "+folder+" && "+typed)
					if err != nil {
						t.Errorf("%s: %s: %v\n%s", page, line, err, out)
					}
					if strings.HasPrefix(line, "acphost sessions new") {
						session = strings.TrimSpace(out)
					}
				}
			}
		}
	}
	if ran < 25 {
		t.Errorf("%d lines were run, want 25 or more", ran)
	}
	for i, n := range notRun {
		if !used[i] {
			t.Errorf("%s has no line %q, which is listed as not run", n.page, n.line)
		}
	}
	s.Finish()
}
