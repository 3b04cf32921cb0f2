package doctor

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/ownhandler"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/handshake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is a home folder without handlers.
type patient struct {
	t    *testing.T
	home string
	vars map[string]string
	opts Options
}

func newPatient(t *testing.T) *patient {
	home := testkit.ShortDir(t)
	p := &patient{t: t, home: home, vars: map[string]string{"HOME": home, "TMPDIR": home, "PATH": "/nowhere"}}
	p.opts = Options{
		Env: func(name string) string { return p.vars[name] }, Dir: home, Programs: ownhandler.Programs{Dir: home}, Logger: slog.New(slog.DiscardHandler),
		Permd: func(context.Context) (permissionv1.PolicyServiceClient, func(context.Context) error, error) {
			return nil, nil, errors.New("no permd here")
		},
	}
	return p
}

func (p *patient) write(name, text string, mode os.FileMode) string {
	p.t.Helper()
	file := filepath.Join(p.home, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		p.t.Fatal(err)
	}
	return file
}

// examine returns what is found, by area and check.
func (p *patient) examine() (found map[string]Finding, problems int) {
	found = map[string]Finding{}
	problems = Run(p.t.Context(), p.opts, func(f Finding) { found[f.Area+"/"+f.Check] = f })
	return found, problems
}

func expect(t *testing.T, f Finding, level Level, detail, todo string) {
	t.Helper()
	if f.Level != level || !strings.Contains(f.Detail, detail) || !strings.Contains(f.Todo, todo) {
		t.Errorf("found %+v, want %s, %q, %q", f, level, detail, todo)
	}
}

func TestFolders_MissingAreAccepted(t *testing.T) {
	p := newPatient(t)
	found, _ := p.examine()
	for _, check := range []string{"configuration folder", "state folder", "sockets folder"} {
		expect(t, found["machine/"+check], OK, "made when it is needed", "")
	}
	if f, ok := found["machine/socket path"]; ok {
		t.Errorf("found %+v", f)
	}
}

func TestFolders_ReportsOpenPermissions(t *testing.T) {
	p := newPatient(t)
	p.write(".local/state/acphost/x", "", 0o600)
	p.write(".config/acphost/x", "", 0o600)
	for dir, mode := range map[string]os.FileMode{".local/state/acphost": 0o755, ".config/acphost": 0o775} {
		if err := os.Chmod(filepath.Join(p.home, dir), mode); err != nil {
			t.Fatal(err)
		}
	}
	sockets := fmt.Sprintf("acphost-%d", os.Geteuid())
	p.write(sockets, "", 0o600)
	found, problems := p.examine()
	expect(t, found["machine/state folder"], Problem, "mode 0755", "chmod 0700 "+p.home)
	expect(t, found["machine/configuration folder"], Problem, "mode 0775", "chmod 0755 "+p.home)
	expect(t, found["machine/sockets folder"], Problem, "is not a folder", "move it away")
	if problems < 3 {
		t.Errorf("%d problems are counted", problems)
	}
}

func TestDoctor_ReportsStateFolderBelowFile(t *testing.T) {
	p := newPatient(t)
	file := p.write("state", "", 0o600)
	p.vars["XDG_STATE_HOME"] = file
	found, _ := p.examine()
	expect(t, found["machine/state folder"], Problem, "acphost cannot be made, because "+file+" is a file", "or set XDG_STATE_HOME to another folder")
}

func TestFolders_ReportsTooLongSocketPath(t *testing.T) {
	p := newPatient(t)
	p.vars["TMPDIR"] = "/" + strings.Repeat("x", 100)
	found, _ := p.examine()
	expect(t, found["machine/socket path"], Problem, "holds 107", "XDG_RUNTIME_DIR")
}

func TestFolders_ReportsMissingHome(t *testing.T) {
	p := newPatient(t)
	delete(p.vars, "HOME")
	found, _ := p.examine()
	expect(t, found["machine/state folder"], Problem, "neither $HOME", "set HOME")
}

func TestConfiguration_LoadErrorEndsChecks(t *testing.T) {
	p := newPatient(t)
	file := p.write(".config/acphost/config.yaml", "log: {level: loud}\n", 0o600)
	found, _ := p.examine()
	expect(t, found["configuration/file"], Problem, file+":1:14: log.level", "acphost config check")
	for name := range found {
		if strings.HasPrefix(name, "handlers/") {
			t.Errorf("a handler was started by it: %s", name)
		}
	}
}

// The certificates of the configuration are valid: only the sidecar's own has expired.
func TestHandlers_AdvisesToRenewCertificateOfSidecar(t *testing.T) {
	p := newPatient(t)
	dir := filepath.Join(p.home, "fs")
	old := certs.Options{Hosts: []string{"localhost"}, Days: 1, Now: time.Now().AddDate(0, 0, -9)}
	if err := certs.InitSidecar(dir, "fs", old); err != nil {
		t.Fatal(err)
	}
	expired, err := tls.LoadX509KeyPair(filepath.Join(dir, "sidecar/server.crt"), filepath.Join(dir, "sidecar/server.key"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certs.Renew(dir, certs.Options{}); err != nil {
		t.Fatal(err)
	}
	keyPairs := []tls.Certificate{expired}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: keyPairs, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake()
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-served })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	keys := filepath.Join(dir, "supervisor")
	p.vars["ACPHOST_CONFIG"] = p.write("config.yaml", fmt.Sprintf(
		"handlers: {fs: {address: 'tcp://localhost:%s', agent_may_call: true, "+
			"tls: {ca: %[2]s/ca.crt, cert: %[2]s/client.crt, key: %[2]s/client.key}}}\n", port, keys), 0o600)
	found, _ := p.examine()
	expect(t, found["handlers/fs"], Problem, "certificate has expired", "acphost certs renew DIR")
}

func TestAgent_IsNotStartedAsWrongUser(t *testing.T) {
	for name, c := range map[string]struct{ file, check string }{
		"an unknown user":           {"agent: {user: acphost-no-such-user}\n", "configuration/user"},
		"a file that does not load": {"agent: {user: nobody\n", "configuration/file"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPatient(t)
			p.write(".config/acphost/config.yaml", c.file, 0o600)
			p.withAgent(nil, nil)
			p.opts.Ask = func(context.Context, agent.Spec, string) (*handshake.Answer, error) {
				t.Error("the agent was started")
				return nil, errors.New("no")
			}
			found, _ := p.examine()
			expect(t, found[c.check], Problem, "", "")
			expect(t, found["agent/command"], Warning, "not started", "run doctor again")
		})
	}
}

func TestConfiguration_ReportsDangerousCapabilities(t *testing.T) {
	p := newPatient(t)
	p.write(".config/acphost/config.yaml", "agent: {capabilities: [CAP_SYS_PTRACE]}\n", 0o600)
	found, _ := p.examine()
	expect(t, found["configuration/capabilities"], Warning, "agent.capabilities keeps SYS_PTRACE", "agent.user")
}

func TestConfiguration_ReportsMissingPrograms(t *testing.T) {
	p := newPatient(t)
	p.write(".config/acphost/config.yaml", "handlers: {mine: {command: [./mine]}}\n", 0o600)
	found, _ := p.examine()
	expect(t, found["configuration/file"], Problem, filepath.Join(p.home, ".config/acphost/mine"), "put the files there")
}

func TestPolicy_ReportsUnreadablePolicy(t *testing.T) {
	p := newPatient(t)
	for _, name := range []string{"fsd", "termd", "permd"} {
		p.write(name, "#!/bin/sh\nexit 3\n", 0o700)
	}
	p.write(".config/acphost/policy.yaml", "version: 1\n", 0o600)
	p.write(".config/acphost/agents.json", `{"agents": [{"id": "X"}]}`, 0o600)
	found, _ := p.examine()
	expect(t, found["configuration/policy"], Problem, "no permd here", "built together")
	expect(t, found["configuration/agents"], Problem, "agents.json:1:20: agents[0].id", "ACP registry")
	for _, name := range []string{"fs", "terminal", "permission"} {
		expect(t, found["handlers/"+name], Problem, "exited with status 3", "run it by itself")
	}
}

func TestFolders_ChecksJournalFolder(t *testing.T) {
	p := newPatient(t)
	for _, name := range []string{"fsd", "termd", "permd"} {
		p.write(name, "#!/bin/sh\nexit 3\n", 0o700)
	}
	found, _ := p.examine()
	if f, ok := found["configuration/journal folder"]; ok {
		t.Errorf("below the state folder: %+v", f)
	}
	dir := filepath.Dir(p.write("elsewhere/x", "", 0o600))
	if err := os.Chmod(dir, 0o722); err != nil { // this is what is found
		t.Fatal(err)
	}
	p.write(".config/acphost/config.yaml", "journal: {dir: "+dir+"}\n", 0o600)
	found, _ = p.examine()
	expect(t, found["configuration/journal folder"], Problem, "mode 0722", "chmod 0700 "+dir)
	if f := found["configuration/free space"]; !strings.Contains(f.Detail, " in "+dir) {
		t.Errorf("found %+v", f)
	}
	p.write(".config/acphost/config.yaml", "journal: {disabled: true}\n", 0o600)
	found, _ = p.examine()
	expect(t, found["configuration/journal"], OK, "off", "")
}

// withAgent sets the result of the check of the agent.
func (p *patient) withAgent(a *handshake.Answer, err error) {
	p.opts.Agent = &AgentCommand{Name: "mine", Command: []string{"/bin/mine", "--acp"}, Preset: true}
	p.opts.Ask = func(_ context.Context, spec agent.Spec, _ string) (*handshake.Answer, error) {
		if spec.Command[0] != "/bin/mine" || spec.Dir != p.opts.Dir {
			p.t.Errorf("asked %+v", spec)
		}
		return a, err
	}
}

func TestAgent_ShowsItsAnswer(t *testing.T) {
	p := newPatient(t)
	p.withAgent(&handshake.Answer{
		Name: "x", Version: "7", Protocol: 1, Took: 1234567 * time.Microsecond, Walls: proc.Restrictions{Landlock: true},
		Capabilities: []byte(`{"loadSession":true,"promptCapabilities":{"image":true,"audio":false},"sessionCapabilities":{"list":{},"fork":null},"_meta":{"x":true}}`),
		AuthMethods:  []handshake.AuthMethod{{ID: "key", Type: "env_var"}, {ID: "tui", Type: "terminal"}},
	}, nil)
	found, _ := p.examine()
	expect(t, found["agent/command"], OK, "/bin/mine --acp", "")
	expect(t, found["agent/handshake"], OK, "x 7, ACP 1, after 1.235s", "")
	expect(t, found["agent/login"], OK, "key (env_var), tui (terminal)", "acphost agents login mine")
	expect(t, found["agent/walls"], OK, "in a Landlock domain", "")
	if got, want := found["agent/capabilities"].Detail, "loadSession, prompt.image, session.list"; got != want {
		t.Errorf("the capabilities are %q, want %q", got, want)
	}
}

func TestAgent_MentionsTerminalLogin(t *testing.T) {
	byItself := []handshake.AuthMethod{{ID: "web", Type: "agent"}}
	for _, c := range []struct {
		name          string
		preset, login bool
		methods       []handshake.AuthMethod
		detail, todo  string
	}{
		{"the agent does it by itself, and its login is known", true, true, byItself, "web (agent)", "acphost agents login mine"},
		{"the agent offers nothing, and its login is known", true, true, nil, "the agent offers none", "acphost agents login mine"},
		{"the agent does it by itself, and no login is known", true, false, byItself, "web (agent)", ""},
		{"the agent has no name", false, false, []handshake.AuthMethod{{ID: "tui", Type: "terminal"}}, "tui (terminal)", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPatient(t)
			p.withAgent(&handshake.Answer{Protocol: 1, AuthMethods: c.methods}, nil)
			p.opts.Agent.Preset, p.opts.Agent.Login = c.preset, c.login
			found, _ := p.examine()
			expect(t, found["agent/login"], OK, c.detail, c.todo)
			if got := found["agent/login"].Todo; c.todo == "" && got != "" {
				t.Errorf("to do is %q", got)
			}
		})
	}
}

func TestAgent_ReportsProblemsWithRemedies(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer *handshake.Answer
		err    error
		check  string
		level  Level
		detail string
		todo   string
	}{
		{"version 2 alone", &handshake.Answer{Protocol: 2}, nil, "handshake", Warning, "it does not say its name, ACP 2 alone", "no methods for files and terminals"},
		{"another protocol", &handshake.Answer{Protocol: 3}, nil, "handshake", Problem, "it does not say its name, ACP 3", "that speaks ACP 2 or before"},
		{"no protocol", &handshake.Answer{Name: "x"}, nil, "handshake", Problem, "which version", "is it an ACP agent"},
		{"slow", &handshake.Answer{Protocol: 1, Took: time.Minute}, nil, "handshake", Warning, "after 1m0s", "installed starts faster"},
		{"unwalled", &handshake.Answer{Protocol: 1, Walls: proc.Restrictions{Notes: []string{"no landlock"}}}, nil, "walls", Warning, "no landlock", "machine"},
		{"not there", nil, agent.Exit{Name: "mine", Reason: agent.NotFound, Code: 127}, "handshake", Problem, "not found", "agents list"},
		{"not executable", nil, agent.Exit{Name: "mine", Reason: agent.StartFailed, Code: 126}, "handshake", Problem, "", "mode"},
		{"silent", nil, &handshake.Unanswered{Waited: time.Second, Cause: context.DeadlineExceeded}, "handshake", Problem, "it did not answer initialize within 1s", "pass the flag"},
		{"junk", nil, &handshake.Unanswered{Waited: time.Second, Dropped: "hello", Cause: context.DeadlineExceeded}, "handshake", Problem, `is "hello": each message must be one line of JSON`, "one line of its standard output"},
		{"refuses root", nil, agent.Exit{Name: "mine", Reason: agent.Exited, Code: 1, Tail: []string{"it cannot be used with root/sudo privileges", "bye"}}, "handshake", Problem, "bye",
			"run acphost as a user other than root"},
		{"ended", nil, agent.Exit{Name: "mine", Reason: agent.Exited, Code: 3}, "handshake", Problem, "3", "run it by itself"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPatient(t)
			p.withAgent(c.answer, c.err)
			found, _ := p.examine()
			expect(t, found["agent/"+c.check], c.level, c.detail, c.todo)
		})
	}
}

func shown() []Finding {
	return []Finding{
		{Area: Machine, Check: "landlock", Level: OK, Detail: "there"},
		{Area: Machine, Check: "state folder", Level: Problem, Detail: "/s is open to others", Todo: "chmod 0700 /s"},
		{Area: Agent, Check: "handshake", Level: Warning, Detail: "a\x1b[31m\nb <&>", Todo: "wait"},
	}
}

func TestPrinter_AlignsColumns(t *testing.T) {
	for name, color := range map[string]bool{"plain.txt": false, "color.txt": true} {
		var out bytes.Buffer
		p := &Printer{Out: &out, Color: color}
		for _, f := range shown() {
			p.Print(f)
		}
		p.Summary(shown())
		p.Summary(shown()[2:])
		p.Summary(shown()[:1])
		testkit.Golden(t, name, out.String())
	}
}

func TestReport_JSONHasResult(t *testing.T) {
	for all, want := range map[*[]Finding]bool{{}: true, {shown()[0], shown()[2]}: true, {shown()[1]}: false} {
		out, err := json.Marshal(Report(*all))
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			OK       bool
			Findings []Finding
		}
		if err := json.Unmarshal(out, &got); err != nil || got.OK != want || len(got.Findings) != len(*all) {
			t.Errorf("%s: %v", out, err)
		}
	}
}

func TestDoctor_WarnsOfUntestedVersions(t *testing.T) {
	for name, c := range map[string]struct {
		tested []string
		warns  bool
	}{
		"tested":     {[]string{"6", "7"}, false},
		"not tested": {[]string{"6"}, true},
		"not known":  {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPatient(t)
			p.withAgent(&handshake.Answer{Name: "x", Version: "7", Protocol: 1}, nil)
			p.opts.Agent.Tested = c.tested
			found, _ := p.examine()
			got, warns := found["agent/version"]
			if warns != c.warns {
				t.Fatalf("found %+v, want a warning: %v", got, c.warns)
			}
			if warns {
				expect(t, got, Warning, `not tested with version "7"`, "install a tested version: 6")
			}
		})
	}
}
