package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/wire"
)

// boxed starts a daemon as a sidecar in a mount namespace of its own, which has the system, the daemon's own folder and what
// mounts say: pairs of a folder here and its path there. It is in no other folder of the client's.
func (p *place) boxed(t testing.TB, name string, mounts ...string) (s *sidecar, address string) {
	t.Helper()
	secret := p.secret(t)
	return p.boxedKnownBy(t, name, []string{"--secret-file", secret}, mounts...)
}

func (p *place) boxedKnownBy(t testing.TB, name string, flags []string, mounts ...string) (s *sidecar, address string) {
	t.Helper()
	box := []string{
		"--die-with-parent", "--unshare-pid", "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", bin, "/daemons", "--bind", p.home, p.home,
	}
	for _, dir := range []string{"/bin", "/lib", "/lib64"} {
		if to, err := os.Readlink(dir); err == nil {
			box = append(box, "--symlink", to, dir)
		} else if _, err := os.Stat(dir); err == nil {
			box = append(box, "--ro-bind", dir, dir)
		}
	}
	for i := 0; i < len(mounts); i += 2 {
		box = append(box, "--bind", mounts[i], mounts[i+1])
	}
	if out, err := wire.Command(t, "bwrap", append(slices.Clone(box), "true")...).CombinedOutput(); err != nil {
		t.Skipf("a mount namespace takes bubblewrap, and a system that lets it make one: %v %s", err, out)
	}
	address = "unix://" + filepath.Join(p.home, "tmp", name+".sock")
	s = &sidecar{t: t, cmd: exec.Command("bwrap", append(box, append([]string{"/daemons/" + name, "--listen", address}, flags...)...)...)}
	s.cmd.Env, s.cmd.Stderr = p.env(), &s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	if !testkit.Poll(func() bool { _, err := os.Stat(strings.TrimPrefix(address, "unix://")); return err == nil }) {
		t.Fatalf("%s does not listen: %s", name, s.log.String())
	}
	return s, address
}

// entry is a sidecar in the configuration. The agent runs as the same user in these tests, so that it could read the secret.
func (p *place) entry(t testing.TB, address, more string) string {
	t.Helper()
	return fmt.Sprintf("{address: %q, secret_file: %q, agent_may_call: true%s}", address, p.secret(t), more)
}

// mapped has files and commands served by sidecars that see the workspace as /workspace, under the ready-made policy "workspace".
func (p *place) mapped(t testing.TB, mounts ...string) []string {
	t.Helper()
	daemons := newPlace(t)
	maps := fmt.Sprintf(", paths: [{here: %q, there: /workspace}]", p.work)
	mounts = append([]string{p.work, "/workspace"}, mounts...)
	_, fsd := daemons.boxed(t, "fsd", mounts...)
	_, termd := daemons.boxed(t, "termd", mounts...)
	return p.config(t, fmt.Sprintf("handlers: {fs: %s, terminal: %s}\npermission: {policy: workspace}\n",
		daemons.entry(t, fsd, maps), daemons.entry(t, termd, maps)))
}

type ran struct {
	Output   string
	ExitCode int
}

func TestASidecarSeesTheWorkspaceUnderAnotherPath(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "a.txt", "a\n")
	p.file(t, "sub/b.txt", "b\n")
	s := p.sceneWith(t, showsTerminals, p.mapped(t), nil)
	if got := content(s.read("a.txt")); got != "a\n" {
		t.Errorf("the agent read %q", got)
	}
	s.write("made.txt", "made\n").Result(nil)
	if got := string(must(t, p.path("made.txt"))); got != "made\n" {
		t.Errorf("the file holds %q", got)
	}
	var listed struct{ Entries []struct{ Name string } }
	s.agent.Request("fs/list_directory", params("path", p.work), &listed)
	if len(listed.Entries) != 3 {
		t.Errorf("the folder has %+v", listed)
	}
	// What is told speaks the client's paths: errors, the record of decisions, the terminals.
	if e := s.read("missing.txt").Refused(-32002); !strings.Contains(e.Message, p.path("missing.txt")) || strings.Contains(e.Message, "/workspace") {
		t.Errorf("the agent was told %q", e.Message)
	}
	for command, want := range map[string]string{
		"cat a.txt; pwd": "a\n/workspace\n", "cd sub && cat b.txt ../a.txt": "b\na\n", "cat < sub/b.txt": "b\n",
	} {
		var got ran
		s.agent.Request("terminal/run", params("command", command), &got)
		if got.Output != want {
			t.Errorf("%s gave %+v, want %q", command, got, want)
		}
	}
	var got ran
	s.agent.Request("terminal/run", params("command", "cat", "args", []string{"b.txt"}, "cwd", p.path("sub")), &got)
	if got.Output != "b\n" {
		t.Errorf("in a folder: %+v", got)
	}
	var made struct{ TerminalID string }
	s.agent.Request("terminal/create", params("command", "sleep 1000", "cwd", p.path("sub")), &made)
	var terminals struct {
		Terminals []struct{ TerminalID, Cwd string }
	}
	if s.state("ListTerminals", &terminals); len(terminals.Terminals) != 1 || terminals.Terminals[0].Cwd != p.path("sub") {
		t.Errorf("the terminals are %+v", terminals)
	}
	s.agent.Request("terminal/release", params("terminalId", made.TerminalID), nil)
	decided := false
	for _, d := range p.decisions(t) {
		for _, path := range d.Action.Paths {
			decided = decided || path.Path == p.path("a.txt")
			if strings.HasPrefix(path.Path, "/workspace") {
				t.Errorf("a decision is recorded about %s", path.Path)
			}
		}
	}
	if !decided {
		t.Error("no decision is recorded about the file that the agent read")
	}
	var handlers struct {
		Handlers []struct {
			Name  string
			Paths []struct{ Here, There string }
		}
	}
	s.state("ListHandlers", &handlers)
	for _, h := range handlers.Handlers {
		if h.Name != "permission" && (len(h.Paths) != 1 || h.Paths[0].Here != p.work || h.Paths[0].There != "/workspace") {
			t.Errorf("the handler is shown as %+v", h)
		}
	}
	s.finish()
}

// What the agent may try to have one file judged and another one opened.
func TestNoPathOfAnAgentMeansAnotherFileInASidecar(t *testing.T) {
	t.Parallel()
	p, decoy := newPlace(t), t.TempDir()
	p.file(t, "a.txt", "a\n")
	p.file(t, "../work2/secret.txt", "beside\n")
	if err := os.WriteFile(filepath.Join(decoy, "secret.txt"), []byte("decoy\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(name, to string) {
		if err := os.Symlink(to, p.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	link("etc", "/etc/hostname")
	link("imitates", p.path("secret.txt")) // leads to the decoy in the sidecar: it has the workspace's path there
	link("folder", p.work)
	link("inside", "/workspace/a.txt")
	link("up", "../workspace/a.txt")
	// The sidecars have other folders where the client's workspace, and one beside it, are here.
	s := p.scene(t, p.mapped(t, decoy, p.work, decoy, p.work+"2"))
	if got := content(s.read("inside")); got != "a\n" {
		t.Errorf("by a link of the sidecar's: %q", got)
	}
	if got := content(s.read("up")); got != "a\n" {
		t.Errorf("by a link that goes up: %q", got)
	}
	for _, path := range []string{
		"/workspace/a.txt", "/workspace", "/WORKSPACE/a.txt", "//workspace//a.txt", "/./workspace/a.txt", "/tmp/../workspace/a.txt",
		p.work + "/../work/secret.txt", p.work + "/../work2/secret.txt", p.work + "/x/../../work2/secret.txt",
		p.work + "/" + strings.Repeat("x/", 1<<12) + "../../../..", filepath.Dir(p.work) + "/x/../work/secret.txt",
		strings.ToUpper(p.work) + "/secret.txt", "/" + strings.Repeat("../", 1<<14) + "workspace/a.txt",
		p.path("imitates"), p.path("folder/secret.txt"), p.work + "2/secret.txt", p.work + ".txt",
	} {
		short := path[:min(len(path), 100)]
		for _, call := range []*wire.Call{
			s.agent.Send("fs/read_text_file", params("path", path)),
			s.agent.Send("fs/write_text_file", params("path", path, "content", "overwritten\n")),
			s.agent.Send("terminal/run", params("command", "cat secret.txt a.txt", "cwd", path)),
			s.agent.Send("terminal/run", params("command", "cat", "args", []string{path})),
		} {
			if answer := s.answerOrRefuse(call); answer.Error == nil {
				if bytes.Contains(answer.Result, []byte("decoy")) || bytes.Contains(answer.Result, []byte("beside")) || bytes.Contains(answer.Result, []byte(`"a\n"`)) {
					t.Errorf("%s: the agent got %s", short, answer.Result)
				}
			} else if strings.Contains(answer.Error.Message, "sidecar") && len(answer.Error.Message) > 2<<10 {
				t.Errorf("%s: the error has %d bytes", short, len(answer.Error.Message))
			}
		}
	}
	for _, command := range []string{
		"cat " + p.path("a.txt"), `cat "` + p.work + `"/a.txt`, "cat <" + p.path("a.txt"), "X=" + p.work + " make", "cat /workspace/a.txt",
		"cat ../workspace/a.txt", "cd .. && ls", `sh -c 'cat ` + p.path("a.txt") + `'`, "cat --show-all=" + p.work + "/a.txt",
	} {
		e := s.agent.Send("terminal/run", params("command", command)).Refused(-32602)
		if !strings.Contains(e.Message, "relative to the working directory") {
			t.Errorf("%s: the agent was told %q", command, e.Message)
		}
	}
	e := s.agent.Send("terminal/create", params("command", "make", "env", []map[string]any{{"name": "GOFLAGS", "value": "-mod=" + p.work}})).Refused(-32602)
	if !strings.Contains(e.Message, "environment variable 1") {
		t.Errorf("the agent was told %q", e.Message)
	}
	if got := string(must(t, filepath.Join(decoy, "secret.txt"))); got != "decoy\n" {
		t.Errorf("the decoy holds %q", got)
	}
	if got := string(must(t, p.path("a.txt"))); got != "a\n" {
		t.Errorf("the file holds %q", got)
	}
	s.finish()
}

// answerOrRefuse waits for an answer, and refuses what acphost asks the user meanwhile.
func (s *scene) answerOrRefuse(call *wire.Call) wire.Message {
	s.t.Helper()
	s.Handle("session/request_permission", func(wire.Message) (any, error) {
		return map[string]any{"outcome": map[string]any{"outcome": "cancelled"}}, nil
	})
	return call.Answer()
}

func TestASessionWhoseFolderASidecarDoesNotHaveIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "file", "")
	if err := os.MkdirAll(p.path("../other"), 0o700); err != nil {
		t.Fatal(err)
	}
	flags := p.mapped(t)
	st := p.newStage(t)
	h := p.start(t, flags, st.command)
	s := &scene{host: h, agent: st.play(t)}
	call := h.initialize(`{}`)
	s.agent.Reply(s.agent.Expect("initialize"), map[string]any{"protocolVersion": 1, "agentInfo": map[string]any{"name": "puppet", "version": "0.1"}})
	call.Result(nil)
	other := filepath.Join(p.home, "other")
	for _, method := range []string{"session/new", "session/load", "session/resume", "session/fork"} {
		for cwd, want := range map[string]string{
			other:             "the folder " + other + ` is missing in the sidecar "fs": no such file or directory: mount it there under that path, or say by handlers.fs.paths`,
			p.path("missing"): "the folder " + p.path("missing") + ` (there /workspace/missing) is missing in the sidecar "fs"`,
			p.path("file"):    "not a directory",
			"/workspace":      "is not a path of this session",
			p.work + "/../x":  "goes up",
		} {
			e := s.Send(method, map[string]any{"cwd": cwd, "sessionId": "old", "mcpServers": []any{}}).Refused(-32602)
			if !strings.Contains(e.Message, want) || !strings.HasPrefix(e.Message, method+": ") {
				t.Errorf("%s in %s: the client was told %q, want %q", method, cwd, e.Message, want)
			}
		}
	}
	e := s.Send("session/new", map[string]any{"cwd": p.work, "additionalDirectories": []string{other}, "mcpServers": []any{}}).Refused(-32602)
	expectContains(t, "the error", e.Message, other)
	s.open("s1") // the first request of these that the agent sees
	s.finish()
	// Without an editor it is the same.
	code, out, errs := p.cli(t, slices.Concat([]string{"prompt"}, flags, []string{"--cwd", other, "hello", "--", program("demoagent")})...)
	if code == 0 || !strings.Contains(out+errs, "is missing in the sidecar") {
		t.Errorf("acphost prompt: status %d\n%s%s", code, out, errs)
	}
}

func TestServe_RefusesFoldersThatASidecarWithoutPathsLacks(t *testing.T) {
	t.Parallel()
	p, daemons := newPlace(t), newPlace(t)
	_, fsd := daemons.boxed(t, "fsd", p.work, p.work)
	other := filepath.Join(p.home, "other")
	if err := os.MkdirAll(other, 0o700); err != nil {
		t.Fatal(err)
	}
	s := p.serve(t, p.config(t, fmt.Sprintf("handlers: {fs: %s}\npermission: {policy: workspace}\n", daemons.entry(t, fsd, ""))))
	agent := s.start(p.demo()).GetId()
	_, err := s.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: agent, Cwd: other})
	if err == nil || !strings.Contains(explain(err).Error(), "the folder "+other+` is missing in the sidecar "fs"`) {
		t.Errorf("a session in %s: got %v", other, err)
	}
	s.open(agent) // the supervisor and the agent still run
	s.finish()
}

func TestSessionsOfAFolderAreServedByAHandlerOfTheirOwn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	srv, deep := p.path("srv"), p.path("srv/deep")
	for _, dir := range []string{deep, p.path("srv2"), p.path("home")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// Each of them says by a file which one it is.
	builder, deepest := t.TempDir(), t.TempDir()
	for dir, name := range map[string]string{builder: "builder", deepest: "deepest"} {
		if err := os.WriteFile(filepath.Join(dir, "name"), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one, two := newPlace(t), newPlace(t)
	_, first := one.boxed(t, "termd", p.work, p.work, builder, "/me")
	_, second := two.boxed(t, "termd", p.work, "/all", deepest, "/me")
	maps := fmt.Sprintf(", paths: [{here: %q, there: /all}]", p.work)
	flags := p.config(t, fmt.Sprintf("handlers: {builder: %s, deepest: %s}\nroutes: {%q: builder, %q: deepest}\n",
		one.entry(t, first, ""), two.entry(t, second, maps), "terminal/* below "+srv, "terminal/* below "+deep))
	s := p.scene(t, flags)
	open := func(id, cwd string) {
		call := s.Send("session/new", map[string]any{"cwd": cwd, "mcpServers": []any{}})
		s.agent.Reply(s.agent.Expect("session/new"), map[string]any{"sessionId": id})
		call.Result(nil)
	}
	in := func(id, method string, more ...any) *wire.Call {
		return s.agent.Send(method, params(append(more, "sessionId", id)...))
	}
	for i, c := range []struct{ cwd, want string }{
		{p.work, ""}, {srv, "builder"}, {srv + "/", "builder"}, {p.path("srv2"), ""}, {deep, "deepest"}, {p.path("home") + "/../srv", "builder"},
	} {
		id := fmt.Sprintf("at%d", i)
		open(id, c.cwd)
		var got ran
		in(id, "terminal/run", "command", "cat /me/name 2>/dev/null").Result(&got)
		if got.Output != c.want {
			t.Errorf("in %s: the handler is %q, want %q", c.cwd, got.Output, c.want)
		}
	}
	// A terminal stays where it was made, and other sessions do not have it.
	var made struct{ TerminalID string }
	in("at1", "terminal/create", "command", "sleep 1000").Result(&made)
	in("at0", "terminal/output", "terminalId", made.TerminalID).Refused(-32002)
	in("at4", "terminal/output", "terminalId", made.TerminalID).Refused(-32002)
	in("at1", "terminal/output", "terminalId", made.TerminalID).Result(nil)
	var terminals struct {
		Terminals []struct{ TerminalID, SessionID string }
	}
	if s.state("ListTerminals", &terminals); len(terminals.Terminals) != 1 || terminals.Terminals[0].SessionID != "at1" {
		t.Errorf("the terminals are %+v", terminals)
	}
	// A session that is open is not taken to a folder of another handler.
	e := s.Send("session/load", map[string]any{"sessionId": "at1", "cwd": deep, "mcpServers": []any{}}).Refused(-32602)
	expectContains(t, "the error", e.Message, "stays with the handlers of that folder")
	in("at1", "terminal/kill", "terminalId", made.TerminalID).Result(nil)
	var handlers struct {
		Handlers []struct {
			Name             string
			Folders, Methods []string
		}
	}
	s.state("ListHandlers", &handlers)
	for _, h := range handlers.Handlers {
		if want := map[string]string{"builder": srv, "deepest": deep}[h.Name]; want != strings.Join(h.Folders, " ") {
			t.Errorf("%s serves %q, want %q", h.Name, h.Folders, want)
		}
		if h.Name == "builder" && !slices.Contains(h.Methods, "terminal/create below "+srv) {
			t.Errorf("builder answers %q", h.Methods)
		}
	}
	var status struct {
		FolderHandlers []struct{ Folder, Handler string }
	}
	if s.state("GetStatus", &status); len(status.FolderHandlers) != 2 || status.FolderHandlers[0].Handler != "builder" || status.FolderHandlers[0].Folder != srv {
		t.Errorf("the status has %+v", status.FolderHandlers)
	}
	s.finish()
}

func TestASidecarOfAnotherUserKeepsTheContract(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	secret := h.secret(t)
	theirs := filepath.Join(h.home, "theirs")
	if err := os.WriteFile(theirs, must(t, secret), 0o600); err != nil {
		t.Fatal(err)
	}
	h.own(t, theirs)
	sockets := filepath.Join(h.home, "sockets")
	if err := os.Mkdir(sockets, 0o700); err != nil {
		t.Fatal(err)
	}
	h.own(t, sockets)
	uid := fmt.Sprint(h.guest.UID)
	for kind, name := range map[string]string{"fs": "fsd", "terminal": "termd", "permission": "permd"} {
		address := "unix://" + filepath.Join(sockets, name+".sock")
		s := &sidecar{t: t, cmd: exec.Command("setpriv", "--reuid", uid, "--clear-groups", program(name), "--listen", address, "--secret-file", theirs, "--allow-uid", "0")}
		s.cmd.Env, s.cmd.Stderr = h.env(), &s.log
		if err := s.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.kill)
		if !testkit.Poll(func() bool { _, err := os.Stat(strings.TrimPrefix(address, "unix://")); return err == nil }) {
			t.Fatalf("%s does not listen: %s", name, s.log.String())
		}
		suite := func(flags ...string) (string, error) {
			cmd := wire.Command(t, program("acphost-conformance"), append([]string{"--kind", kind, "--address", address, "--secret-file", secret}, flags...)...)
			cmd.Env = h.env("TMPDIR=" + sockets) // where both may make files
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		if out, err := suite("--uid", uid, "--run", "Describe|Configure|CheckFolders|reads|writes|Run|Create|allow|deny|refuse"); err != nil {
			t.Errorf("%s: %v\n%s", kind, err, out)
		}
		if out, err := suite("--run", "Describe"); err == nil || !strings.Contains(out, "runs as user "+uid) {
			t.Errorf("%s, taken for one of this user: %v\n%s", kind, err, out)
		}
	}
}

func TestDoctorTellsTheTruthAboutSidecars(t *testing.T) {
	t.Parallel()
	p, daemons := newPlace(t), newPlace(t)
	settings := daemons.file(t, "../permd.yaml", "policy: workspace\n")
	_, permd := daemons.sidecarKnownBy(t, "permd", "--secret-file", daemons.secret(t), "--settings", settings)
	_, fsd := daemons.boxed(t, "fsd", p.work, "/workspace")
	maps := fmt.Sprintf(", paths: [{here: %q, there: /workspace}, {here: %q, there: /missing}]", p.work, p.path("../docs"))
	write := func(maps string) []string {
		return p.config(t, fmt.Sprintf("handlers: {fs: %s}\npermission: [%s]\n", daemons.entry(t, fsd, maps), daemons.entry(t, permd, "")))
	}
	manifest := p.file(t, "../agent/package.json", `{"name": "an-agent", "engines": {"node": ">=9999"}}`)
	script := p.file(t, "../agent/agent.sh", "#!/bin/sh\nexec "+program("demoagent")+"\n")
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	node := p.file(t, "../tools/node", "#!/bin/sh\necho v20.1.0\n")
	if err := os.Chmod(node, 0o700); err != nil {
		t.Fatal(err)
	}
	out, _ := p.shell(t, filepath.Dir(node), strings.Join(append([]string{program("acphost"), "doctor", "--json"}, append(write(maps), "--", script)...), " "))
	for _, want := range []string{
		"decided at " + permd, "rules in force: 14, from workspace", fmt.Sprintf("which user %d serves, as it has to be", os.Getuid()),
		p.path("../docs") + " is to be /missing there, but that is missing", "handlers.fs.paths",
		"an-agent needs Node.js >=9999, and " + node + " is v20.1.0",
	} {
		if !strings.Contains(strings.ReplaceAll(out, `\u003e`, ">"), want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "no policy is set") {
		t.Errorf("it says that the sidecar has no policy:\n%s", out)
	}
	if err := os.Remove(manifest); err != nil {
		t.Fatal(err)
	}
	status, found := p.doctor(t, write(fmt.Sprintf(", paths: [{here: %q, there: /workspace}]", p.work))...)
	if want := "ok: " + p.work + " is /workspace there"; status != 0 || !strings.Contains(found["handlers/fs"], want) {
		t.Errorf("status %d; it does not say %q: %s", status, want, found["handlers/fs"])
	}
}

// Another sidecar takes the place of one in the middle of a session: the paths stay mapped.
func TestPathsStayMappedWhenASidecarIsSwapped(t *testing.T) {
	t.Parallel()
	p, daemons, others := newPlace(t), newPlace(t), newPlace(t)
	p.file(t, "a.txt", "a\n")
	_, one := daemons.boxed(t, "fsd", p.work, "/workspace")
	_, two := others.boxed(t, "fsd", p.work, "/workspace")
	maps := fmt.Sprintf(", paths: [{here: %q, there: /workspace}]", p.work)
	s := p.scene(t, p.config(t, fmt.Sprintf("handlers: {fs: %s}\n", daemons.entry(t, one, maps))))
	if got := content(s.read("a.txt")); got != "a\n" {
		t.Errorf("before the swap: %q", got)
	}
	pid := fmt.Sprint(s.PID())
	if code, out, errs := p.cli(t, "handler", "swap", "fs", "--pid", pid, "--address", two, "--secret-file", others.secret(t), "--agent-may-call"); code != 0 {
		t.Fatalf("handler swap: %d\n%s%s", code, out, errs)
	}
	if got := content(s.read("a.txt")); got != "a\n" {
		t.Errorf("after the swap: %q", got)
	}
	if code, out, errs := p.cli(t, "handler", "swap", "fs", "--pid", pid, "--", "fsd"); code == 0 || !strings.Contains(errs, "take the place of a sidecar") {
		t.Errorf("a program in its place: %d\n%s%s", code, out, errs)
	}
	if code, out, errs := p.cli(t, "grants", "list", "--pid", pid); code != 0 {
		t.Errorf("grants list: %d\n%s%s", code, out, errs)
	}
	if _, out, _ := p.cli(t, "handler", "list", "--pid", pid); !strings.Contains(out, p.work+" as /workspace") {
		t.Errorf("the list does not say how paths are mapped:\n%s", out)
	}
	s.finish()
}

// A program that acphost starts can serve a folder, too: it gets what terminal handlers get.
func TestAProgramServesTheCommandsOfAFolder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	srv := p.path("srv")
	if err := os.Mkdir(srv, 0o700); err != nil {
		t.Fatal(err)
	}
	s := p.scene(t, p.config(t, fmt.Sprintf("handlers: {builder: {command: [termd], settings: {env_deny: [MARK]}}}\nroutes: {%q: builder}\n", "terminal/* below "+srv)), "MARK=1", "OTHER=2")
	call := s.Send("session/new", map[string]any{"cwd": srv, "mcpServers": []any{}})
	s.agent.Reply(s.agent.Expect("session/new"), map[string]any{"sessionId": "s2"})
	call.Result(nil)
	for id, want := range map[string]string{"s1": "1 2\n", "s2": " 2\n"} {
		var got ran
		s.agent.Request("terminal/run", params("sessionId", id, "command", `echo "$MARK $OTHER"`), &got)
		if got.Output != want {
			t.Errorf("in %s: %+v, want %q", id, got, want)
		}
	}
	s.finish()
}
