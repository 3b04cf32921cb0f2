package handlers_test

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
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

type ran struct {
	Output   string
	ExitCode int
}

func TestSidecarPaths_AreMapped(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "a\n")
	p.File(t, "sub/b.txt", "b\n")
	s := p.FixtureWith(t, e2e.ShowsTerminals, mapped(t, p), nil)
	if got := e2e.Content(s.Read("a.txt")); got != "a\n" {
		t.Errorf("the agent read %q", got)
	}
	s.WriteFile("made.txt", "made\n").Result(nil)
	if got := string(e2e.Must(t, p.Path("made.txt"))); got != "made\n" {
		t.Errorf("the file holds %q", got)
	}
	var listed struct{ Entries []struct{ Name string } }
	s.Agent.Request("fs/list_directory", e2e.Params("path", p.Work), &listed)
	if len(listed.Entries) != 3 {
		t.Errorf("the folder has %+v", listed)
	}
	// All reports have the client's paths: errors, the record of decisions, the terminals.
	if e := s.Read("missing.txt").Refused(-32002); !strings.Contains(e.Message, p.Path("missing.txt")) || strings.Contains(e.Message, "/workspace") {
		t.Errorf("the agent received %q", e.Message)
	}
	for command, want := range map[string]string{
		"cat a.txt; pwd": "a\n/workspace\n", "cd sub && cat b.txt ../a.txt": "b\na\n", "cat < sub/b.txt": "b\n",
	} {
		var got ran
		s.Agent.Request("terminal/run", e2e.Params("command", command), &got)
		if got.Output != want {
			t.Errorf("%s gave %+v, want %q", command, got, want)
		}
	}
	var got ran
	s.Agent.Request("terminal/run", e2e.Params("command", "cat", "args", []string{"b.txt"}, "cwd", p.Path("sub")), &got)
	if got.Output != "b\n" {
		t.Errorf("in a folder: %+v", got)
	}
	var made struct{ TerminalID string }
	s.Agent.Request("terminal/create", e2e.Params("command", "sleep 1000", "cwd", p.Path("sub")), &made)
	var terminals struct {
		Terminals []struct{ TerminalID, Cwd string }
	}
	if s.State("ListTerminals", &terminals); len(terminals.Terminals) != 1 || terminals.Terminals[0].Cwd != p.Path("sub") {
		t.Errorf("the terminals are %+v", terminals)
	}
	s.Agent.Request("terminal/release", e2e.Params("terminalId", made.TerminalID), nil)
	decided := false
	for _, d := range p.Decisions(t) {
		for _, path := range d.Action.Paths {
			decided = decided || path.Path == p.Path("a.txt")
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
	s.State("ListHandlers", &handlers)
	for _, h := range handlers.Handlers {
		if h.Name != "permission" && (len(h.Paths) != 1 || h.Paths[0].Here != p.Work || h.Paths[0].There != "/workspace") {
			t.Errorf("the handler is shown as %+v", h)
		}
	}
	s.Finish()
}

// TestSidecarPaths_AgentCannotReachOtherFile tries to have one file decided on and another one opened.
func TestSidecarPaths_AgentCannotReachOtherFile(t *testing.T) {
	t.Parallel()
	p, decoy := e2e.NewPlace(t), t.TempDir()
	p.File(t, "a.txt", "a\n")
	p.File(t, "../work2/secret.txt", "beside\n")
	if err := os.WriteFile(filepath.Join(decoy, "secret.txt"), []byte("decoy\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(name, to string) {
		if err := os.Symlink(to, p.Path(name)); err != nil {
			t.Fatal(err)
		}
	}
	link("etc", "/etc/hostname")
	link("imitates", p.Path("secret.txt")) // leads to the decoy in the sidecar: it has the workspace's path there
	link("folder", p.Work)
	link("inside", "/workspace/a.txt")
	link("up", "../workspace/a.txt")
	// The sidecars have other folders where the client's workspace, and one beside it, are here.
	s := p.Fixture(t, mapped(t, p, decoy, p.Work, decoy, p.Work+"2"))
	if got := e2e.Content(s.Read("inside")); got != "a\n" {
		t.Errorf("by a link of the sidecar's: %q", got)
	}
	if got := e2e.Content(s.Read("up")); got != "a\n" {
		t.Errorf("by a link that goes up: %q", got)
	}
	for _, path := range []string{
		"/workspace/a.txt", "/workspace", "/WORKSPACE/a.txt", "//workspace//a.txt", "/./workspace/a.txt", "/tmp/../workspace/a.txt",
		p.Work + "/../work/secret.txt", p.Work + "/../work2/secret.txt", p.Work + "/x/../../work2/secret.txt",
		p.Work + "/" + strings.Repeat("x/", 1<<12) + "../../../..", filepath.Dir(p.Work) + "/x/../work/secret.txt",
		strings.ToUpper(p.Work) + "/secret.txt", "/" + strings.Repeat("../", 1<<14) + "workspace/a.txt",
		p.Path("imitates"), p.Path("folder/secret.txt"), p.Work + "2/secret.txt", p.Work + ".txt",
	} {
		short := path[:min(len(path), 100)]
		for _, call := range []*wire.Call{
			s.Agent.Send("fs/read_text_file", e2e.Params("path", path)),
			s.Agent.Send("fs/write_text_file", e2e.Params("path", path, "content", "overwritten\n")),
			s.Agent.Send("terminal/run", e2e.Params("command", "cat secret.txt a.txt", "cwd", path)),
			s.Agent.Send("terminal/run", e2e.Params("command", "cat", "args", []string{path})),
		} {
			if answer := answerOrRefuse(s, call); answer.Error == nil {
				if bytes.Contains(answer.Result, []byte("decoy")) || bytes.Contains(answer.Result, []byte("beside")) || bytes.Contains(answer.Result, []byte(`"a\n"`)) {
					t.Errorf("%s: the agent got %s", short, answer.Result)
				}
			} else if strings.Contains(answer.Error.Message, "sidecar") && len(answer.Error.Message) > 2<<10 {
				t.Errorf("%s: the error has %d bytes", short, len(answer.Error.Message))
			}
		}
	}
	for _, command := range []string{
		"cat " + p.Path("a.txt"), `cat "` + p.Work + `"/a.txt`, "cat <" + p.Path("a.txt"), "X=" + p.Work + " make", "cat /workspace/a.txt",
		"cat ../workspace/a.txt", "cd .. && ls", `sh -c 'cat ` + p.Path("a.txt") + `'`, "cat --show-all=" + p.Work + "/a.txt",
	} {
		e := s.Agent.Send("terminal/run", e2e.Params("command", command)).Refused(-32602)
		if !strings.Contains(e.Message, "relative to the working directory") {
			t.Errorf("%s: the agent received %q", command, e.Message)
		}
	}
	e := s.Agent.Send("terminal/create", e2e.Params("command", "make", "env", []map[string]any{{"name": "GOFLAGS", "value": "-mod=" + p.Work}})).Refused(-32602)
	if !strings.Contains(e.Message, "environment variable 1") {
		t.Errorf("the agent received %q", e.Message)
	}
	if got := string(e2e.Must(t, filepath.Join(decoy, "secret.txt"))); got != "decoy\n" {
		t.Errorf("the decoy holds %q", got)
	}
	if got := string(e2e.Must(t, p.Path("a.txt"))); got != "a\n" {
		t.Errorf("the file holds %q", got)
	}
	s.Finish()
}

func TestSidecarPaths_RejectSessionInMissingFolder(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "file", "")
	if err := os.MkdirAll(p.Path("../other"), 0o700); err != nil {
		t.Fatal(err)
	}
	flags := mapped(t, p)
	st := p.Stage(t)
	h := p.Start(t, flags, st.Command)
	s := &e2e.Fixture{Host: h, Agent: st.Play(t)}
	call := h.Initialize(`{}`)
	s.Agent.Reply(s.Agent.Expect("initialize"), map[string]any{"protocolVersion": 1, "agentInfo": map[string]any{"name": "puppet", "version": "0.1"}})
	call.Result(nil)
	other := filepath.Join(p.Home, "other")
	for _, method := range []string{"session/new", "session/load", "session/resume", "session/fork"} {
		for cwd, want := range map[string]string{
			other:             "the folder " + other + ` is missing in the sidecar "fs": no such file or directory: mount it there under that path, or say by handlers.fs.paths`,
			p.Path("missing"): "the folder " + p.Path("missing") + ` (there /workspace/missing) is missing in the sidecar "fs"`,
			p.Path("file"):    "not a directory",
			"/workspace":      "is not a path of this session",
			p.Work + "/../x":  "goes up",
		} {
			e := s.Send(method, map[string]any{"cwd": cwd, "sessionId": "old", "mcpServers": []any{}}).Refused(-32602)
			if !strings.Contains(e.Message, want) || !strings.HasPrefix(e.Message, method+": ") {
				t.Errorf("%s in %s: the client received %q, want %q", method, cwd, e.Message, want)
			}
		}
	}
	e := s.Send("session/new", map[string]any{"cwd": p.Work, "additionalDirectories": []string{other}, "mcpServers": []any{}}).Refused(-32602)
	e2e.ExpectContains(t, "the error", e.Message, other)
	s.Open("s1") // the first request of these that the agent sees
	s.Finish()
	// Without an editor it is the same.
	code, out, errs := p.Cli(t, slices.Concat([]string{"prompt"}, flags, []string{"--cwd", other, "hello", "--", e2e.Program("demoagent")})...)
	if code == 0 || !strings.Contains(out+errs, "is missing in the sidecar") {
		t.Errorf("acphost prompt: status %d\n%s%s", code, out, errs)
	}
	if strings.Contains(out+errs, "answered") || strings.Contains(out+errs, "agent \"demoagent\"") {
		t.Errorf("the error is attributed to the agent, which did not receive the request:\n%s%s", out, errs)
	}
}

func TestServe_RejectsFoldersThatSidecarLacks(t *testing.T) {
	t.Parallel()
	p, daemons := e2e.NewPlace(t), e2e.NewPlace(t)
	_, fsd := daemons.Boxed(t, "fsd", p.Work, p.Work)
	other := filepath.Join(p.Home, "other")
	if err := os.MkdirAll(other, 0o700); err != nil {
		t.Fatal(err)
	}
	s := p.Serve(t, p.Config(t, fmt.Sprintf("handlers: {fs: %s}\npermission: {policy: workspace}\n", handlerEntry(t, daemons, fsd, ""))))
	agent := s.Start(p.Demo()).GetId()
	_, err := s.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: agent, Cwd: other})
	if err == nil || !strings.Contains(e2e.Explain(err).Error(), "the folder "+other+` is missing in the sidecar "fs"`) {
		t.Errorf("a session in %s: got %v", other, err)
	}
	s.Open(agent) // the supervisor and the agent still run
	s.Finish()
}

func TestFolderHandler_ServesSessionsOfFolder(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	srv, deep := p.Path("srv"), p.Path("srv/deep")
	for _, dir := range []string{deep, p.Path("srv2"), p.Path("home")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	// Each folder has a file with the name of the sidecar.
	builder, deepest := t.TempDir(), t.TempDir()
	for dir, name := range map[string]string{builder: "builder", deepest: "deepest"} {
		if err := os.WriteFile(filepath.Join(dir, "name"), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one, two := e2e.NewPlace(t), e2e.NewPlace(t)
	_, first := one.Boxed(t, "termd", p.Work, p.Work, builder, "/me")
	_, second := two.Boxed(t, "termd", p.Work, "/all", deepest, "/me")
	maps := fmt.Sprintf(", paths: [{here: %q, there: /all}]", p.Work)
	flags := p.Config(t, fmt.Sprintf("handlers: {builder: %s, deepest: %s}\nroutes: {%q: builder, %q: deepest}\n",
		handlerEntry(t, one, first, ""), handlerEntry(t, two, second, maps), "terminal/* below "+srv, "terminal/* below "+deep))
	s := p.Fixture(t, flags)
	open := func(id, cwd string) {
		call := s.Send("session/new", map[string]any{"cwd": cwd, "mcpServers": []any{}})
		s.Agent.Reply(s.Agent.Expect("session/new"), map[string]any{"sessionId": id})
		call.Result(nil)
	}
	in := func(id, method string, more ...any) *wire.Call {
		return s.Agent.Send(method, e2e.Params(append(more, "sessionId", id)...))
	}
	for i, c := range []struct{ cwd, want string }{
		{p.Work, ""}, {srv, "builder"}, {srv + "/", "builder"}, {p.Path("srv2"), ""}, {deep, "deepest"}, {p.Path("home") + "/../srv", "builder"},
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
	if s.State("ListTerminals", &terminals); len(terminals.Terminals) != 1 || terminals.Terminals[0].SessionID != "at1" {
		t.Errorf("the terminals are %+v", terminals)
	}
	// A session that is open is not taken to a folder of another handler.
	e := s.Send("session/load", map[string]any{"sessionId": "at1", "cwd": deep, "mcpServers": []any{}}).Refused(-32602)
	e2e.ExpectContains(t, "the error", e.Message, "stays with the handlers of that folder")
	in("at1", "terminal/kill", "terminalId", made.TerminalID).Result(nil)
	var handlers struct {
		Handlers []struct {
			Name             string
			Folders, Methods []string
		}
	}
	s.State("ListHandlers", &handlers)
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
	if s.State("GetStatus", &status); len(status.FolderHandlers) != 2 || status.FolderHandlers[0].Handler != "builder" || status.FolderHandlers[0].Folder != srv {
		t.Errorf("the status has %+v", status.FolderHandlers)
	}
	s.Finish()
}

func TestSidecar_OfOtherUserConforms(t *testing.T) {
	t.Parallel()
	h := e2e.NewUserPlace(t)
	secret := h.Secret(t)
	theirs := filepath.Join(h.Home, "theirs")
	if err := os.WriteFile(theirs, e2e.Must(t, secret), 0o600); err != nil {
		t.Fatal(err)
	}
	h.Own(t, theirs)
	sockets := filepath.Join(h.Home, "sockets")
	if err := os.Mkdir(sockets, 0o700); err != nil {
		t.Fatal(err)
	}
	h.Own(t, sockets)
	uid := fmt.Sprint(h.AgentUser.UID)
	for kind, name := range map[string]string{"fs": "fsd", "terminal": "termd", "permission": "permd"} {
		address := "unix://" + filepath.Join(sockets, name+".sock")
		s := &e2e.Sidecar{T: t, Cmd: exec.Command("setpriv", "--reuid", uid, "--clear-groups", e2e.Program(name), "--listen", address, "--secret-file", theirs, "--allow-uid", "0")}
		s.Cmd.Env, s.Cmd.Stderr = h.Env(), &s.Log
		if err := s.Cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Kill)
		if !testkit.Poll(func() bool { return testkit.Listens(strings.TrimPrefix(address, "unix://")) }) {
			t.Fatalf("%s does not listen: %s", name, s.Log.String())
		}
		suite := func(flags ...string) (string, error) {
			cmd := wire.Command(t, e2e.Program("acphost-conformance"), append([]string{"--kind", kind, "--address", address, "--secret-file", secret}, flags...)...)
			cmd.Env = h.Env("TMPDIR=" + sockets) // where both may make files
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

func TestDoctor_ReportsSidecars(t *testing.T) {
	t.Parallel()
	p, daemons := e2e.NewPlace(t), e2e.NewPlace(t)
	settings := daemons.File(t, "../permd.yaml", "policy: workspace\n")
	_, permd := daemons.SidecarKnownBy(t, "permd", "--secret-file", daemons.Secret(t), "--settings", settings)
	_, fsd := daemons.Boxed(t, "fsd", p.Work, "/workspace")
	maps := fmt.Sprintf(", paths: [{here: %q, there: /workspace}, {here: %q, there: /missing}]", p.Work, p.Path("../docs"))
	write := func(maps string) []string {
		return p.Config(t, fmt.Sprintf("handlers: {fs: %s}\npermission: [%s]\n", handlerEntry(t, daemons, fsd, maps), handlerEntry(t, daemons, permd, "")))
	}
	manifest := p.File(t, "../agent/package.json", `{"name": "an-agent", "engines": {"node": ">=9999"}}`)
	script := p.File(t, "../agent/agent.sh", "#!/bin/sh\nexec "+e2e.Program("demoagent")+"\n")
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	node := p.File(t, "../tools/node", "#!/bin/sh\necho v20.1.0\n")
	if err := os.Chmod(node, 0o700); err != nil {
		t.Fatal(err)
	}
	out, _ := p.Shell(t, filepath.Dir(node), strings.Join(append([]string{e2e.Program("acphost"), "doctor", "--json"}, append(write(maps), "--", script)...), " "))
	for _, want := range []string{
		"decided at " + permd, "rules in force: ", ", from workspace", fmt.Sprintf("which user %d serves, as it has to be", os.Getuid()),
		p.Path("../docs") + " is to be /missing there, but that is missing", "handlers.fs.paths",
		"an-agent needs Node.js >=9999, and " + node + " is v20.1.0",
	} {
		if !strings.Contains(strings.ReplaceAll(out, `\u003e`, ">"), want) {
			t.Errorf("it does not contain %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "no policy is set") {
		t.Errorf("it states that the sidecar has no policy:\n%s", out)
	}
	if err := os.Remove(manifest); err != nil {
		t.Fatal(err)
	}
	status, found := p.Doctor(t, write(fmt.Sprintf(", paths: [{here: %q, there: /workspace}]", p.Work))...)
	if want := "ok: " + p.Work + " is /workspace there"; status != 0 || !strings.Contains(found["handlers/fs"], want) {
		t.Errorf("status %d; it does not contain %q: %s", status, want, found["handlers/fs"])
	}
}

// TestSidecarPaths_StayMappedAfterSwap replaces a sidecar in the middle of a session.
func TestSidecarPaths_StayMappedAfterSwap(t *testing.T) {
	t.Parallel()
	p, daemons, others := e2e.NewPlace(t), e2e.NewPlace(t), e2e.NewPlace(t)
	p.File(t, "a.txt", "a\n")
	_, one := daemons.Boxed(t, "fsd", p.Work, "/workspace")
	_, two := others.Boxed(t, "fsd", p.Work, "/workspace")
	maps := fmt.Sprintf(", paths: [{here: %q, there: /workspace}]", p.Work)
	s := p.Fixture(t, p.Config(t, fmt.Sprintf("handlers: {fs: %s}\n", handlerEntry(t, daemons, one, maps))))
	if got := e2e.Content(s.Read("a.txt")); got != "a\n" {
		t.Errorf("before the swap: %q", got)
	}
	pid := fmt.Sprint(s.PID())
	if code, out, errs := p.Cli(t, "handler", "swap", "fs", "--pid", pid, "--address", two, "--secret-file", others.Secret(t), "--agent-may-call"); code != 0 {
		t.Fatalf("handler swap: %d\n%s%s", code, out, errs)
	}
	if got := e2e.Content(s.Read("a.txt")); got != "a\n" {
		t.Errorf("after the swap: %q", got)
	}
	if code, out, errs := p.Cli(t, "handler", "swap", "fs", "--pid", pid, "--", "fsd"); code == 0 || !strings.Contains(errs, "take the place of a sidecar") {
		t.Errorf("a program in its place: %d\n%s%s", code, out, errs)
	}
	if code, out, errs := p.Cli(t, "grants", "list", "--pid", pid); code != 0 {
		t.Errorf("grants list: %d\n%s%s", code, out, errs)
	}
	if _, out, _ := p.Cli(t, "handler", "list", "--pid", pid); !strings.Contains(out, p.Work+" as /workspace") {
		t.Errorf("the list does not state how paths are mapped:\n%s", out)
	}
	s.Finish()
}

// TestFolderHandler_StartsProgram: a program that acphost starts for a folder gets the same settings as a terminal
// handler.
func TestFolderHandler_StartsProgram(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	srv := p.Path("srv")
	if err := os.Mkdir(srv, 0o700); err != nil {
		t.Fatal(err)
	}
	s := p.Fixture(t, p.Config(t, fmt.Sprintf("handlers: {builder: {command: [termd], settings: {env_deny: [MARK]}}}\nroutes: {%q: builder}\n", "terminal/* below "+srv)), "MARK=1", "OTHER=2")
	call := s.Send("session/new", map[string]any{"cwd": srv, "mcpServers": []any{}})
	s.Agent.Reply(s.Agent.Expect("session/new"), map[string]any{"sessionId": "s2"})
	call.Result(nil)
	for id, want := range map[string]string{"s1": "1 2\n", "s2": " 2\n"} {
		var got ran
		s.Agent.Request("terminal/run", e2e.Params("sessionId", id, "command", `echo "$MARK $OTHER"`), &got)
		if got.Output != want {
			t.Errorf("in %s: %+v, want %q", id, got, want)
		}
	}
	s.Finish()
}

// handlerEntry is a sidecar in the configuration. The agent runs as the same user in these tests, so that it could read
// the secret.
func handlerEntry(t testing.TB, p *e2e.Place, address, more string) string {
	t.Helper()
	return fmt.Sprintf("{address: %q, secret_file: %q, agent_may_call: true%s}", address, p.Secret(t), more)
}

// mapped has files and commands served by sidecars that see the workspace as /workspace, under the ready-made policy
// "workspace".
func mapped(t testing.TB, p *e2e.Place, mounts ...string) []string {
	t.Helper()
	daemons := e2e.NewPlace(t)
	maps := fmt.Sprintf(", paths: [{here: %q, there: /workspace}]", p.Work)
	mounts = append([]string{p.Work, "/workspace"}, mounts...)
	_, fsd := daemons.Boxed(t, "fsd", mounts...)
	_, termd := daemons.Boxed(t, "termd", mounts...)
	return p.Config(t, fmt.Sprintf("handlers: {fs: %s, terminal: %s}\npermission: {policy: workspace}\n",
		handlerEntry(t, daemons, fsd, maps), handlerEntry(t, daemons, termd, maps)))
}

// answerOrRefuse waits for an answer, and refuses what acphost asks the user meanwhile.
func answerOrRefuse(s *e2e.Fixture, call *wire.Call) wire.Message {
	s.T.Helper()
	s.Handle("session/request_permission", func(wire.Message) (any, error) {
		return map[string]any{"outcome": map[string]any{"outcome": "cancelled"}}, nil
	})
	return call.Answer()
}
