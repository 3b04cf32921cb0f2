package config

import (
	"cmp"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/yamlproto"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
)

const (
	defaultMaxRestarts = 5
	defaultDrainMS     = 0
	defaultMaxAgents   = 32
	defaultMaxSessions = 1000

	maxDrainMS   = 3600000
	maxAgentName = 128 // in characters
)

// expandEnv expands plain text as the value of an environment variable.
func expandEnv(doc *yamlproto.Document) {
	doc.ExpandMap("agent.env", "value")
	expandHeaders(doc)
	for _, list := range []string{"serve.agents", "serve.gateway_agents"} {
		for i := range doc.Len(list) {
			doc.ExpandMap(string(path(list).to(i, "env")), "value")
		}
	}
}

// namedAgents returns the agents in the configuration: those that start at once, and those of gateways.
func namedAgents(c *configv1.Config) []*configv1.ServeAgent {
	return slices.Concat(c.GetServe().GetAgents(), c.GetServe().GetGatewayAgents())
}

// GatewayAgentName returns the name by which remote clients select an agent: its own, else its preset's, else its
// program's.
func GatewayAgentName(a *configv1.ServeAgent) string {
	name := cmp.Or(a.GetName(), a.GetPreset())
	if name == "" && len(a.GetCommand()) > 0 {
		name = filepath.Base(a.GetCommand()[0])
	}
	return name
}

// admin checks who may call the supervisor's services, and from where.
func (v *checker) admin(a *configv1.Admin) {
	at := path("admin")
	if a.GetSocket() != "" {
		v.socket(at.to("socket"), a.GetSocket())
	}
	v.tls(at.to("tls"), a.GetTls())
	if a.GetTls().GetServerName() != "" {
		v.problem(at.to("tls", "server_name"), "it does not count here: clients check the name, and the server has none to check")
	}
	if a.GetListen() == "" {
		v.misplaced(at.to("agents_may_use_keys"), a.GetAgentsMayUseKeys(), "listen only, which is not set")
		v.misplaced(at.to("tls"), a.GetTls() != nil, "listen only, which is not set")
		return
	}
	host, port, err := net.SplitHostPort(a.GetListen())
	n, numErr := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || numErr != nil || n == 0 || strings.ContainsAny(host, "/@?#\x00"):
		v.problem(at.to("listen"), `expected HOST:PORT, as in "127.0.0.1:7443" or ":7443", got %q`, a.GetListen())
	case a.GetTls() == nil:
		v.problem(at.to("listen"), `TCP needs mutual TLS: set admin.tls with ca, cert and key; "acphost certs init" makes them`)
	}
}

func (v *checker) serve(s *configv1.Serve) {
	at := path("serve")
	if s.GetDrainMs() > maxDrainMS {
		v.problem(at.to("drain_ms"), "expected 0 to %d, got %d", maxDrainMS, s.GetDrainMs())
	}
	v.bound(at.to("max_agents"), uint64(s.GetMaxAgents()), 1, 1000)
	v.bound(at.to("max_sessions"), uint64(s.GetMaxSessions()), 1, 100000)
	limit := int(s.GetMaxAgents())
	orDefault(&limit, defaultMaxAgents)
	if n := len(s.GetAgents()); n > limit {
		v.problem(at.to("agents"), "these are %d agents, and max_agents is %d", n, limit)
	}
	for i, a := range s.GetAgents() {
		v.serveAgent(at.to("agents", i), a)
	}
	names := map[string]bool{}
	for i, a := range s.GetGatewayAgents() {
		at, name := at.to("gateway_agents", i), GatewayAgentName(a)
		v.serveAgent(at, a)
		if name != "" && names[name] {
			v.problem(at, "another gateway agent is called %q, too: give this one a name of its own", name)
		}
		names[name] = true
	}
}

func (v *checker) serveAgent(at path, a *configv1.ServeAgent) {
	command := a.GetCommand()
	switch {
	case (a.GetPreset() == "") == (len(command) == 0):
		v.problem(at, "expected either preset or command")
	case len(command) > 0 && command[0] == "":
		v.problem(at.to("command", 0), "expected a program, got %q", "")
	}
	v.arguments(at, command)
	v.agentName(at.to("name"), a.GetName())
	v.absoluteFile(at.to("cwd"), a.GetCwd())
	v.env(at.to("env"), a.GetEnv())
}

func (v *checker) agentName(at path, name string) {
	if utf8.RuneCountInString(name) > maxAgentName || strings.ContainsFunc(name, unicode.IsControl) {
		v.problem(at, "expected 1 to %d characters without control characters, got %q", maxAgentName, name)
	}
}

// env checks environment variables of agents.
func (v *checker) env(at path, env map[string]*configv1.EnvValue) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value := env[name]
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			v.problem(at.to(name), `expected a name without "=" and NUL characters, got %q`, name)
		case strings.ContainsRune(value.GetValue()+value.GetFile(), 0):
			v.problem(at.to(name), "expected text without NUL characters")
		case value.GetValue() != "" && value.GetFile() != "":
			v.problem(at.to(name), "expected either value or file, got both")
		}
	}
}

// resolveServe makes the paths in admin, agent and serve absolute.
func (v *checker) resolveServe(c *configv1.Config) {
	v.resolveTLS(c.GetAdmin().GetTls())
	v.resolveTelemetry(c.GetTelemetry().GetOtlp())
	for _, value := range envValues(c) {
		if value.GetFile() != "" {
			value.File = v.absolute(value.GetFile())
		}
	}
	for _, a := range namedAgents(c) {
		v.program(a.GetCommand())
		clean(&a.Cwd)
	}
}

// envValues returns the values of all environment variables of agents, and of the headers for telemetry. Some may be
// nil.
func envValues(c *configv1.Config) []*configv1.EnvValue {
	all := slices.Collect(maps.Values(c.GetAgent().GetEnv()))
	all = slices.AppendSeq(all, maps.Values(c.GetTelemetry().GetOtlp().GetHeaders()))
	for _, a := range namedAgents(c) {
		all = slices.AppendSeq(all, maps.Values(a.GetEnv()))
	}
	return all
}

// KeyFiles returns the files that contain only a key: those of agents' variables, and the keys of TLS. Paths are
// absolute and clean. The files may be missing.
func (c *Config) KeyFiles() []string {
	e := c.Effective()
	files := []string{e.GetAdmin().GetTls().GetKey()}
	for _, value := range envValues(e) {
		files = append(files, value.GetFile())
	}
	for _, h := range e.GetHandlers() {
		files = append(files, h.GetTls().GetKey())
	}
	files = slices.DeleteFunc(files, func(f string) bool { return !filepath.IsAbs(f) })
	for i, f := range files {
		files[i] = filepath.Clean(f)
	}
	return slices.Compact(slices.Sorted(slices.Values(files)))
}

// serveFiles returns the files with secrets in admin, agent and serve. If the server's keys are in a folder of "acphost
// certs init", it also returns that folder, because it contains the keys of clients, and perhaps of the authority.
func serveFiles(c *configv1.Config) []string {
	t := c.GetAdmin().GetTls()
	files := []string{t.GetCa(), t.GetCert(), t.GetKey()}
	for dir, n := t.GetKey(), 0; t.GetKey() != "" && n < 2; n++ { // the server's folder and its parent
		if dir = filepath.Dir(dir); isThere(filepath.Join(dir, certs.CAKeyFile)) || holdsClients(dir) {
			files = append(files, dir)
		}
	}
	for _, value := range envValues(c) {
		files = append(files, value.GetFile())
	}
	return files
}

// holdsClients reports whether a folder has folders of clients' keys.
func holdsClients(dir string) bool {
	entries, _ := os.ReadDir(dir)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return isThere(certs.ClientFiles(filepath.Join(dir, e.Name())).Key)
	})
}

// checkServeFiles checks that the files in admin, agent and serve exist.
func (v *checker) checkServeFiles(c *configv1.Config) {
	v.regularTLS(path("admin.tls"), c.GetAdmin().GetTls())
	v.envFiles(path("agent.env"), c.GetAgent().GetEnv())
	v.checkTelemetryFiles(c.GetTelemetry().GetOtlp())
	for i, a := range c.GetServe().GetAgents() {
		v.envFiles(path("serve.agents").to(i, "env"), a.GetEnv())
	}
	for i, a := range c.GetServe().GetGatewayAgents() {
		v.envFiles(path("serve.gateway_agents").to(i, "env"), a.GetEnv())
	}
}

func (v *checker) envFiles(at path, env map[string]*configv1.EnvValue) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if file := env[name].GetFile(); file != "" {
			v.regular(at.to(name, "file"), file, 0)
		}
	}
}

// effectiveServe fills in the defaults for agents without an editor.
func effectiveServe(e *configv1.Config) {
	e.Agent.MaxRestarts = cmp.Or(e.Agent.MaxRestarts, proto.Uint32(defaultMaxRestarts))
	e.Serve = orNew(e.Serve)
	e.Serve.DrainMs = cmp.Or(e.Serve.DrainMs, proto.Uint32(defaultDrainMS))
	effectiveTelemetry(e.GetTelemetry().GetOtlp())
	orDefault(&e.Serve.MaxAgents, defaultMaxAgents)
	orDefault(&e.Serve.MaxSessions, defaultMaxSessions)
}
