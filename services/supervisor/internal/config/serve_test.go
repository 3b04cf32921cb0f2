package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/ownhandler"
)

const serveText = `
admin:
  listen: ":7443"
  tls: {ca: keys/ca.crt, cert: keys/server.crt, key: keys/server.key}
agent:
  max_restarts: 0
  env: {MODE: acp, EMPTY: "", PORT: "8080", API_KEY: {file: api.key}, OPEN_SECRET: s3cret}
serve:
  drain_ms: 0
  agents:
  - preset: claude
  - command: [./agent, --token=abc]
    cwd: /srv/../srv/work
    env: {OTHER: {file: /abs/other}}
`

func TestServe_ResolvesKeyFilesAgainstConfig(t *testing.T) {
	file := write(t, serveText)
	dir := filepath.Dir(file)
	c, err := config.Load(file, environment("HOME=/home/me"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*configv1.EnvValue{
		"MODE": {Value: "acp"}, "EMPTY": {}, "PORT": {Value: "8080"}, "API_KEY": {File: dir + "/api.key"}, "OPEN_SECRET": {Value: "s3cret"},
	}
	for name, value := range want {
		if got := c.Proto.GetAgent().GetEnv()[name]; !proto.Equal(got, value) {
			t.Errorf("%s is %v, want %v", name, got, value)
		}
	}
	tls := c.Proto.GetAdmin().GetTls()
	if tls.GetCa() != dir+"/keys/ca.crt" || tls.GetCert() != dir+"/keys/server.crt" || tls.GetKey() != dir+"/keys/server.key" {
		t.Errorf("the keys are %v", tls)
	}
	own := c.Proto.GetServe().GetAgents()[1]
	if own.GetCommand()[0] != dir+"/agent" || own.GetCwd() != "/srv/work" {
		t.Errorf("the agent is %v", own)
	}
}

func TestKeyFiles_ListsAll(t *testing.T) {
	file := write(t, serveText+"handlers: {fs: {address: \"tcp://h:1\", tls: {ca: side.crt, cert: me.crt, key: side.key}}}\n")
	dir := filepath.Dir(file)
	c, err := config.Load(file, environment("HOME=/home/me"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/abs/other", dir + "/api.key", dir + "/keys/server.key", dir + "/side.key"}
	if got := c.KeyFiles(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestServe_Defaults(t *testing.T) {
	e := load(t, "{}").Effective()
	if s := e.GetServe(); s.GetDrainMs() != 0 || s.GetMaxAgents() != 32 || s.GetMaxSessions() != 1000 || e.GetAgent().GetMaxRestarts() != 5 {
		t.Errorf("serve is %v, agent is %v", s, e.GetAgent())
	}
	if e := load(t, serveText).Effective(); e.GetServe().GetDrainMs() != 0 || e.GetAgent().GetMaxRestarts() != 0 {
		t.Errorf("a zero that was set is %v, %v", e.GetServe(), e.GetAgent())
	}
}

func TestProtected_HasKeysOfAgentsAndCallers(t *testing.T) {
	file := write(t, serveText)
	dir := filepath.Dir(file)
	protected := func() []string {
		c, err := config.Load(file, environment("HOME=/home/me"))
		if err != nil {
			t.Fatal(err)
		}
		return c.ProtectedPaths()
	}
	got := protected()
	for _, want := range []string{dir + "/keys/ca.crt", dir + "/keys/server.key", dir + "/api.key", "/abs/other"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not protected; these are: %v", want, got)
		}
	}
	if slices.Contains(got, dir+"/keys") {
		t.Error("a folder is protected that may hold anything")
	}
	// The authority's key lies there: so do those of its clients.
	if err := os.Mkdir(dir+"/keys", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/keys/ca.key", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(protected(), dir+"/keys") {
		t.Error("the folder of an authority is not protected")
	}
	// The server's keys have a folder of their own in it, as they are made now.
	below := strings.NewReplacer("keys/server.", "keys/server/server.", "ca: keys/", "ca: keys/server/").Replace(serveText)
	if c := load(t, below); slices.Contains(c.ProtectedPaths(), filepath.Join(filepath.Dir(c.File), "keys")) {
		t.Error("a folder is protected that may hold anything")
	}
	if err := os.WriteFile(file, []byte(below), 0o600); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(protected(), dir+"/keys") {
		t.Error("the authority's folder above the server's is not protected")
	}
	if err := os.WriteFile(file, []byte(serveText), 0o600); err != nil {
		t.Fatal(err)
	}
	// It was taken elsewhere, and the keys of clients were not.
	if err := errors.Join(os.Remove(dir+"/keys/ca.key"), os.Mkdir(dir+"/keys/alice", 0o700), os.WriteFile(dir+"/keys/alice/client.key", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(protected(), dir+"/keys") {
		t.Error("the folder of clients' keys is not protected")
	}
}

func TestGatewayAgents_AreResolvedAndRedacted(t *testing.T) {
	text := `serve:
  gateway_agents:
  - preset: claude
  - command: [./agent, --token=abc]
    name: mine
    env: {KEY: plain, OTHER: {file: /abs/gateway.key}}
`
	c := load(t, text)
	own := c.Proto.GetServe().GetGatewayAgents()[1]
	if !filepath.IsAbs(own.GetCommand()[0]) || own.GetEnv()["KEY"].GetValue() != "plain" || config.GatewayAgentName(own) != "mine" {
		t.Errorf("the agent is %v", own)
	}
	if !slices.Contains(c.KeyFiles(), "/abs/gateway.key") || !slices.Contains(c.ProtectedPaths(), "/abs/gateway.key") {
		t.Errorf("its key is not protected: %q", c.KeyFiles())
	}
	if got := config.Redacted(c.Proto).GetServe().GetGatewayAgents()[1].GetCommand()[1]; got != "--token=[redacted]" {
		t.Errorf("its command is shown with %q", got)
	}
	for bad, want := range map[string]string{
		"[{preset: a}, {command: [/bin/a]}]":           `another gateway agent is called "a"`,
		"[{preset: a, name: x}, {preset: b, name: x}]": `another gateway agent is called "x"`,
		"[{name: x}]": "expected either preset or command",
	} {
		_, err := config.Load(write(t, "serve: {gateway_agents: "+bad+"}\n"), environment("HOME=/home/me"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", bad, err, want)
		}
	}
}

func TestRedacted_HidesAgentSecrets(t *testing.T) {
	c := config.Redacted(load(t, serveText).Proto)
	if env := c.GetAgent().GetEnv(); env["OPEN_SECRET"].GetValue() != "[redacted]" || env["MODE"].GetValue() != "acp" || env["API_KEY"].GetFile() == "" {
		t.Errorf("the environment is shown as %v", env)
	}
	if got := c.GetServe().GetAgents()[1].GetCommand()[1]; got != "--token=[redacted]" {
		t.Errorf("an argument is shown as %q", got)
	}
}

func TestCheckFiles_ReportsMissingKeys(t *testing.T) {
	err := load(t, serveText).CheckFiles(ownhandler.Programs{Dir: t.TempDir()})
	if err == nil {
		t.Fatal("nothing is missing")
	}
	for _, want := range []string{"admin.tls.ca", "admin.tls.key", "agent.env.API_KEY", "serve.agents[1].env.OTHER"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not missed: %v", want, err)
		}
	}
}
