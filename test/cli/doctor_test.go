package cli_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/sandbox"
	_ "github.com/acphost/acphost/internal/sandbox/sandboxed"
	"github.com/acphost/acphost/test/e2e"
	// has sandbox.Supported try
)

func TestDoctor_HealthyMachine(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "../.config/acphost/policy.yaml", "version: 1\nrules:\n  - {id: all, effect: ask, path: [\"**\"]}\n")
	status, found := p.Doctor(t, "--", e2e.Program("demoagent"))
	if status != 0 {
		t.Errorf("the status is %d: %v", status, found)
	}
	for check, want := range map[string]string{
		"configuration/file":   "ok: none, the defaults count",
		"configuration/policy": "policy.yaml: 1 rule",
		"handlers/fs":          "ok: fsd ",
		"handlers/terminal":    "ok: termd ",
		"handlers/permission":  "ok: permd ",
		"agent/command":        "ok: " + e2e.Program("demoagent"),
		"agent/handshake":      "ok: demoagent ",
		"agent/walls":          "ok: started under a guard",
	} {
		if !strings.Contains(found[check], want) {
			t.Errorf("%s: found %q, want %q", check, found[check], want)
		}
	}
	p.ExpectNobody(t, nil)
	if status, out, _ := p.Cli(t, "doctor"); status != 0 || !strings.HasPrefix(out, "Machine\n  ") || strings.Contains(out, "\x1b") || strings.Contains(out, "Agent\n") {
		t.Errorf("for people: %d\n%s", status, out)
	}
}

func TestDoctor_ReportsFaultsWithAdvice(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	broken := p.File(t, "../.config/acphost/policy.yaml", "version: 1\nrules:\n  - {id: x, effect: perhaps}\n")
	p.File(t, "../.config/acphost/config.yaml", "agent: {initialize_timeout_seconds: 1}\nhandlers: {fs: {command: [/bin/false]}}\n")
	status, found := p.Doctor(t, "--", e2e.Program("demoagent"), "-hang-initialize", "-ignore-end")
	if status != 1 {
		t.Errorf("the status is %d", status)
	}
	for check, want := range map[string][]string{
		"configuration/policy": {"problem: " + broken + ":3:", "acphost policy check " + broken},
		"handlers/fs":          {"problem: /bin/false: ", "run it by itself"},
		"handlers/terminal":    {"ok: "},
		"agent/handshake":      {"problem: it did not answer initialize within 1", "--acp"},
	} {
		for _, w := range want {
			if !strings.Contains(found[check], w) {
				t.Errorf("%s: found %q, want %q", check, found[check], w)
			}
		}
	}
	_, found = p.Doctor(t, "--", e2e.Program("demoagent"), "-exit-on-initialize", "3")
	if f := found["agent/handshake"]; !strings.Contains(f, "exited with status 3") || !strings.Contains(f, "exiting, as told") {
		t.Errorf("an agent that ends: %q", f)
	}
	_, found = p.Doctor(t, "--", filepath.Join(p.Work, "missing"))
	if f := found["agent/handshake"]; !strings.Contains(f, "command not found") || !strings.Contains(f, "acphost agents list") {
		t.Errorf("an agent that is not there: %q", f)
	}
	p.ExpectNobody(t, nil)
}

// TestConfiguredAgent_RunsByName: an agent in the user's own configuration runs by its name, which policies see.
func TestConfiguredAgent_RunsByName(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	platforms := `{"cmd": "` + e2e.Program("demoagent") + `", "args": ["-complain", "from the file"]}`
	var binary []string
	for _, platform := range []string{"linux-x86_64", "linux-aarch64", "darwin-x86_64", "darwin-aarch64"} {
		binary = append(binary, `"`+platform+`": `+platforms)
	}
	p.File(t, "../.config/acphost/agents.json", `{"agents": [{"id": "mine", "distribution": {"binary": {`+strings.Join(binary, ",")+`}}}]}`)
	// A file in the workspace has no effect.
	p.File(t, "agents.json", `{"agents": [{"id": "mine", "distribution": {}}]}`)
	p.File(t, ".acphost/agents.json", `{"agents": [{"id": "mine", "distribution": {}}]}`)
	status, found := p.Doctor(t, "--agent", "mine")
	if f := found["agent/handshake"]; status != 0 || !strings.Contains(f, "ok: demoagent ") {
		t.Errorf("doctor: %d, %q", status, f)
	}
	if status, out, errs := p.Cli(t, "agents", "list", "--installed"); status != 0 || !strings.Contains(out, e2e.Program("demoagent")+" -complain from the file") {
		t.Errorf("agents list: %d, %s%s", status, out, errs)
	}
	if status, _, errs := p.Cli(t, "run", "--agent", "mine"); status != 0 || !strings.Contains(errs, "from the file") {
		t.Errorf("run: %d, %s", status, errs)
	}
}

func TestDoctor_AgentOfVersion2Only(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	const script = `read -r line; echo '{"jsonrpc":"2.0","id":0,"error":{"code":-32022,"message":"Unsupported protocol version"}}'; read -r line; ` +
		`echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2,"info":{"name":"two","version":"9"},"capabilities":{"session":{}}}}'; cat >/dev/null`
	status, found := p.Doctor(t, "--", "sh", "-c", script)
	if status != 0 {
		t.Errorf("the status is %d: %v", status, found)
	}
	e2e.ExpectContains(t, "the handshake", found["agent/handshake"], "warning: two 9, ACP 2 alone", "sessions, prompts, questions and logins work", "files and terminals")
}

func TestDoctor_ReportsNetworkEnforcement(t *testing.T) {
	t.Parallel()
	confined := sandbox.Supported() == nil
	for network, c := range map[string]struct{ policy, confined, not string }{
		"proxy": {"workspace", "ok: proxy: the policy decides", "warning: by variables alone"},
		"none":  {"workspace", "ok: none: the agent connects to no machine", "warning: nothing keeps"},
		"open":  {"workspace", "warning: open: connections are not decided", ""},
		"":      {"", "", ""},
	} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			args := p.Config(t, "sandbox: {mode: enforce, network: "+network+"}\npermission: {policy: "+c.policy+"}\n")
			if network == "" { // a proxy without a known target
				args, c.confined, c.not = p.Config(t, "sandbox: {mode: enforce, network: proxy}\n"), "warning: proxy: the agent reaches every machine", "warning: by variables alone"
			}
			_, found := p.Doctor(t, append(args, "--", e2e.Program("demoagent"))...)
			want := c.not
			if confined {
				want = c.confined
			}
			if got := found["agent/network"]; !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("found %q, want %q", got, want)
			}
		})
	}
}

func TestDoctor_WarnsOfUndecidedReads(t *testing.T) {
	t.Parallel()
	if err := sandbox.Supported(); err != nil {
		t.Skip("there is no sandbox on this machine: ", err)
	}
	for reads, want := range map[string]string{"false": "warning: not decided", "true": ""} {
		p := e2e.NewPlace(t)
		args := p.Config(t, "sandbox: {mode: enforce, reads: "+reads+"}\npermission: {policy: ask}\n")
		_, found := p.Doctor(t, append(args, "--", e2e.Program("demoagent"))...)
		if got := found["agent/reads"]; !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("with reads %s found %q, want %q", reads, got, want)
		}
	}
}

func TestDoctor_WarnsOfSandboxWithoutRules(t *testing.T) {
	t.Parallel()
	if err := sandbox.Supported(); err != nil {
		t.Skip("there is no sandbox on this machine: ", err)
	}
	for policy, want := range map[string]string{
		"null":      "warning: no rules: there is no policy: nothing that the agent does by itself is decided",
		"workspace": "warning: enforce: the policy decides about what the agent does by itself",
	} {
		p := e2e.NewPlace(t)
		args := p.Config(t, "sandbox: {mode: enforce, require: true}\npermission: {policy: "+policy+"}\n")
		_, found := p.Doctor(t, append(args, "--", e2e.Program("demoagent"))...)
		if got := found["agent/sandbox"]; !strings.HasPrefix(got, want) {
			t.Errorf("with policy %q found %q, want %q", policy, got, want)
		}
	}
}

func TestDoctor_AcceptsFlagsOfRun(t *testing.T) {
	t.Parallel()
	if err := sandbox.Supported(); err != nil {
		t.Skip("there is no sandbox on this machine: ", err)
	}
	p := e2e.NewPlace(t)
	_, found := p.Doctor(t)
	if got := found["machine/sandbox"]; !strings.HasPrefix(got, "ok: it can be had") {
		t.Errorf("without flags found %q", got)
	}
	_, found = p.Doctor(t, "--policy", "workspace", "--sandbox", "enforce", "--network", "none", "--", e2e.Program("demoagent"))
	for check, want := range map[string]string{
		"agent/sandbox": "warning: enforce: the policy decides", "agent/network": "ok: none: the agent connects", "configuration/policy": "ok: ",
	} {
		if got := found[check]; !strings.HasPrefix(got, want) {
			t.Errorf("%s: found %q, want %q", check, got, want)
		}
	}
	status, found := p.Doctor(t, "--sandbox", "on")
	if got := found["configuration/flags"]; status != 1 || !strings.Contains(got, `--sandbox: expected one of off, observe, enforce, got "on"`) {
		t.Errorf("status %d, found %q", status, got)
	}
}

// TestDoctor_DoesNotStartAgentInSandbox has doctor and init check agents that they do not start in the sandbox.
func TestDoctor_DoesNotStartAgentInSandbox(t *testing.T) {
	t.Parallel()
	if err := sandbox.Supported(); err != nil {
		t.Skip("there is no sandbox on this machine: ", err)
	}
	p := e2e.NewPlace(t)
	tools := filepath.Join(p.Home, "tools")
	for _, name := range []string{"copilot", "gemini"} {
		program := p.File(t, "../tools/"+name, "#!/bin/sh\nexec "+e2e.Program("demoagent")+"\n")
		if err := os.Chmod(program, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	acphost := e2e.Program("acphost")
	doctor, err := p.Shell(t, tools, acphost+" doctor --policy workspace --sandbox enforce --network none -- copilot --acp")
	words := strings.Join(strings.Fields(doctor), " ")
	e2e.ExpectContains(t, "doctor", words, "whether the policy lets it start inside was not tried",
		"try it: acphost prompt --sandbox enforce --policy workspace --network none hello -- copilot --acp", "no problem, ")
	if err != nil || strings.Contains(words, "it works") || strings.Contains(words, "everything is in order") {
		t.Errorf("doctor states that an agent works that it did not start in the sandbox (%v):\n%s", err, doctor)
	}
	begins := "mkdir -p ~/.copilot && echo begun > ~/.copilot/log || exit 3\n"
	p.File(t, "../tools/copilot", "#!/bin/sh\n"+begins+"exec "+e2e.Program("demoagent")+"\n")
	advised, err := p.Shell(t, tools, acphost+
		" prompt --sandbox enforce --policy workspace --network none hello -- copilot --acp 2>&1")
	e2e.ExpectContains(t, "the advised command", advised, "the sandbox refused: write "+p.Home+"/.copilot/log",
		"list its folder in sandbox.own (rule process-runs-later)")
	if err == nil {
		t.Error("an agent started that cannot write its state")
	}
	made, err := p.Shell(t, tools, acphost+" init --agent gemini --yes")
	if e2e.ExpectContains(t, "init", made, "acphost chat --agent gemini"); err != nil || strings.Contains(made, "it works") {
		t.Errorf("init states that an agent works that it did not start (%v):\n%s", err, made)
	}
}

func TestDoctor_AdvisesToRenewCertificates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left   time.Duration
		status int
		want   string
	}{
		"expired": {-time.Hour, 1, "problem: admin.tls.cert: %s: expired on "},
		"soon":    {time.Minute, 0, "warning: admin.tls.cert: %s: expires in "},
		"valid":   {60*24*time.Hour + time.Hour, 0, "ok: admin.tls.cert: %s: 60 days left, until "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-90 * 24 * time.Hour), NotAfter: now.Add(c.left)}
			der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
			if err != nil {
				t.Fatal(err)
			}
			cert := p.File(t, "../server.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
			p.File(t, "../.config/acphost/config.yaml", fmt.Sprintf("admin: {listen: \"127.0.0.1:7443\", tls: {ca: %[1]q, cert: %[1]q, key: %[1]q}}\n", cert))
			status, found := p.Doctor(t)
			f := found["configuration/certificate"]
			if want := fmt.Sprintf(c.want, cert); status != c.status || !strings.Contains(f, want) {
				t.Errorf("the status is %d, want %d, and found %q, want %q", status, c.status, f, want)
			}
			if advised := strings.Contains(f, `run "acphost certs renew DIR"`); advised != (name != "valid") {
				t.Errorf("the renewal is advised: %v, in %q", advised, f)
			}
		})
	}
}
