package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

func TestConfiguration_RejectsEmptyFile(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"no bytes": "", "only comments": "# permission: {policy: workspace}\n", "null": "null\n", "a document's begin": "---\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			named := p.File(t, "../config/empty.yaml", text)
			usual := filepath.Join(p.Home, ".config", "acphost", "config.yaml")
			if err := os.MkdirAll(filepath.Dir(usual), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(usual, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for file, args := range map[string][]string{
				named: {"prompt", "--config", named, "repeat hello", "--", e2e.Program("demoagent")},
				usual: {"prompt", "repeat hello", "--", e2e.Program("demoagent")},
			} {
				status, out, errs := p.Cli(t, args...)
				if status == 0 || strings.Contains(out, "hello") || !strings.Contains(errs, file+" has no content") {
					t.Errorf("%q: status %d\n%s%s", args, status, out, errs)
				}
			}
		})
	}
	t.Run("link to a missing file", func(t *testing.T) {
		t.Parallel()
		p := e2e.NewPlace(t)
		usual := filepath.Join(p.Home, ".config", "acphost", "config.yaml")
		if err := errors.Join(os.MkdirAll(filepath.Dir(usual), 0o700), os.Symlink(filepath.Join(p.Home, "none"), usual)); err != nil {
			t.Fatal(err)
		}
		status, out, errs := p.Cli(t, "prompt", "repeat hello", "--", e2e.Program("demoagent"))
		if status == 0 || strings.Contains(out, "hello") || !strings.Contains(errs, usual+" is a symbolic link to a file that is missing") {
			t.Errorf("status %d\n%s%s", status, out, errs)
		}
	})
	t.Run("no name", func(t *testing.T) {
		t.Parallel()
		p := e2e.NewPlace(t)
		status, out, errs := p.Cli(t, "prompt", "--config", "", "repeat hello", "--", e2e.Program("demoagent"))
		if status != 2 || strings.Contains(out, "hello") || !strings.Contains(errs, "--config is empty") {
			t.Errorf("status %d\n%s%s", status, out, errs)
		}
	})
	t.Run("an empty mapping", func(t *testing.T) {
		t.Parallel()
		p := e2e.NewPlace(t)
		if status, out, errs := p.Cli(t, append(append([]string{"config", "check"}, p.Config(t, "{}\n")...), []string{}...)...); status != 0 {
			t.Errorf("status %d\n%s%s", status, out, errs)
		}
	})
}

// The agent writes JSON over several lines, as jq does.
func TestInitialize_QuotesFirstDroppedLine(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	flags := p.Config(t, "agent: {initialize_timeout_seconds: 1}\n")
	pretty := []string{"sh", "-c", `read line; printf '{\n  "jsonrpc": "2.0",\n  "id": 0,\n  "result": {"protocolVersion": 1}\n}\n'; cat >/dev/null`}
	_, _, errs := p.Cli(t, append(append(append([]string{"prompt"}, flags...), "hello", "--"), pretty...)...)
	e2e.ExpectContains(t, "the error of prompt", errs, `"{"`, "must be one line")
	_, found := p.Doctor(t, append(append(flags, "--"), pretty...)...)
	e2e.ExpectContains(t, "the finding of doctor", found["agent/handshake"], `"{"`, "JSON over several lines", "write each message on one line")
	if strings.Contains(found["agent/handshake"], "context deadline") {
		t.Errorf("doctor speaks of its own code: %s", found["agent/handshake"])
	}
	h := p.Start(t, flags, pretty)
	e2e.ExpectContains(t, "the error of run", h.Initialize(`{}`).Refused(-32603).Message, `"{"`, "must be one line")
	h.Close()
	h.ExpectExit()
}

// TestPromptAndDoctor_AdviceIfAgentRejectsRoot: Claude Code prints this message if it runs as root.
func TestPromptAndDoctor_AdviceIfAgentRejectsRoot(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	for name, script := range map[string]string{
		"as it ends":           `echo "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons" >&2; exit 1`,
		"as an error response": `read line; echo '{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"Internal error","data":{"details":"--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"}}}'; cat >/dev/null`,
	} {
		t.Run(name, func(t *testing.T) {
			_, _, errs := p.Cli(t, "prompt", "hello", "--", "sh", "-c", script)
			e2e.ExpectContains(t, "the error", errs, "agent.user")
			_, found := p.Doctor(t, "--", "sh", "-c", script)
			e2e.ExpectContains(t, "the finding of doctor", found["agent/handshake"], "-> run acphost as a user other than root", "agent.user")
		})
	}
}

func TestServe_PolicyRequiresFolderForRecord(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	out, err := p.Shell(t, "", "env -i PATH=\"$PATH\" TMPDIR=\"$TMPDIR\" "+e2e.Program("acphost")+" serve --policy workspace")
	if err == nil {
		t.Errorf("serve ended in order: %s", out)
	}
	e2e.ExpectContains(t, "the error", out, "permission.audit.file", "permission.audit.disabled")
	help := strings.Join(strings.Fields(p.Acphost(t, 0, "serve", "--help")), " ")
	e2e.ExpectContains(t, "the help", help, "permission.audit.file", "Without a policy it needs")
}

func TestSessionsList_OmitsRecordingsWithoutBeginning(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	if status, out, errs := p.Cli(t, "prompt", "repeat hello", "--", e2e.Program("demoagent")); status != 0 {
		t.Fatalf("status %d\n%s%s", status, out, errs)
	}
	recorded, err := filepath.Glob(filepath.Join(p.Home, ".local/state/acphost/journal/*/s-*.ndjson"))
	if err != nil || len(recorded) == 0 {
		t.Fatalf("the recordings are %q (%v)", recorded, err)
	}
	for _, name := range []string{"s-full-0123456789ab.ndjson", "s-full-0123456789ac.ndjson"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(recorded[0]), name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, out, errs := p.Cli(t, "sessions", "list", "--json")
	if status != 0 || strings.Count(out, "\n") != 1 || !strings.Contains(errs, "2 recordings left out") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
}

func TestLists_PrintJSONLines(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, p.Policy(t, allowing, ""))
	agent := s.Start(p.Demo()).GetId()
	s.Open(agent)
	for _, args := range [][]string{
		{"ps"}, {"agents", "running"}, {"agents", "list"}, {"handler", "list"}, {"sessions", "list"}, {"grants", "list"}, {"approvals", "list"},
		{"terminals", "list"}, {"files"}, {"tokens", "list"}, {"policy", "check", "workspace", "headless"}, {"policy", "reload"},
	} {
		status, out, errs := p.Cli(t, append(args, "--json")...)
		if status != 0 {
			t.Errorf("%q: status %d: %s", args, status, errs)
		}
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "}\n") {
				t.Errorf("%q prints the line %.80q, want an object", args, line)
				break
			}
		}
	}
	s.Finish()
}

func TestPolicyCheck_ChecksConfiguredPolicy(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	flags := p.Policy(t, "version: 1\nrules: [{id: x, effect: alow, on: [fs.read]}]\n", "")
	status, out, errs := p.Cli(t, append([]string{"policy", "check"}, flags...)...)
	if status != 1 || !strings.Contains(out, "alow") {
		t.Errorf("status %d\n%s%s", status, out, errs)
	}
	if status, out, errs := p.Cli(t, "policy", "check"); status != 1 || !strings.Contains(errs, "no policy is configured") {
		t.Errorf("without a policy: status %d\n%s%s", status, out, errs)
	}
}

func TestApprovals_AcceptPrefix(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, p.Config(t, "permission: {timeout_seconds: 60}\n"))
	turn := s.Prompt(s.Open(s.Start(p.Demo()).GetId()).GetSessionId(), "ask")
	id := turn.Question().GetId()
	prefix := id[strings.LastIndexByte(id, '.')+1:][:8]
	e2e.ExpectContains(t, "the list", p.Acphost(t, 0, "approvals", "list"), prefix+"  "+e2e.HandleOf(id))
	p.Acphost(t, 0, "approvals", "answer", strings.ToLower(prefix[:4]), "reject_once")
	turn.Stopped("end_turn")
	s.Finish()
}

func TestDoctor_ReportsExpiryOfCertificates(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	keys := filepath.Join(p.Home, "keys")
	p.Acphost(t, 0, "certs", "init", keys, "--days", "20")
	config := p.Config(t, "admin: {listen: '127.0.0.1:7443', agents_may_use_keys: true, tls: {ca: ../keys/server/ca.crt, cert: ../keys/server/server.crt, key: ../keys/server/server.key}}\n")
	_, found := p.Doctor(t, config...)
	e2e.ExpectContains(t, "the certificate", found["configuration/certificate"], "19 days left")
	p.Acphost(t, 0, "certs", "init", keys+"2", "--days", "1")
	config = p.Config(t, "admin: {listen: '127.0.0.1:7443', agents_may_use_keys: true, tls: {ca: ../keys/server/ca.crt, cert: ../keys2/server/server.crt, key: ../keys2/server/server.key}}\n")
	_, found = p.Doctor(t, config...)
	e2e.ExpectContains(t, "the certificate of a day", found["configuration/certificate"], "expires in ")
}
