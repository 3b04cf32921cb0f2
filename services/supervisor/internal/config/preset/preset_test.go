package preset

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is a home folder with a PATH of its own.
type machine struct {
	t    *testing.T
	home string
	vars map[string]string
}

func newMachine(t *testing.T) *machine {
	home := t.TempDir()
	return &machine{t: t, home: home, vars: map[string]string{"HOME": home, "PATH": "bin:" + filepath.Join(home, "bin")}}
}

func (m *machine) env(name string) string { return m.vars[name] }

// write makes a file below the home folder, executable if it is a program.
func (m *machine) write(name, content string) string {
	m.t.Helper()
	file := filepath.Join(m.home, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		m.t.Fatal(err)
	}
	mode := os.FileMode(0o600)
	if strings.HasPrefix(content, "#!") {
		mode = 0o700
	}
	if err := os.WriteFile(file, []byte(content), mode); err != nil {
		m.t.Fatal(err)
	}
	return file
}

func (m *machine) link(to, name string) string {
	m.t.Helper()
	file := filepath.Join(m.home, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Symlink(to, file); err != nil {
		m.t.Fatal(err)
	}
	return file
}

func (m *machine) load() *Catalog {
	m.t.Helper()
	c, err := Load(m.env)
	if err != nil {
		m.t.Fatal(err)
	}
	return c
}

func (m *machine) resolve(name string) *Resolved {
	m.t.Helper()
	r, err := m.load().Resolve(name)
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

const program = "#!/bin/sh\n"

func TestPresets_MatchDocs(t *testing.T) {
	m := newMachine(t)
	m.write("bin/npx", program)
	var got bytes.Buffer
	for _, a := range m.load().Agents() {
		r := m.resolve(a.ID)
		fmt.Fprintf(&got, "%s %v (%s)\n  get:   %s\n  fetch: %s\n  env:   %s\n", a.ID, a.Own.Aliases, a.Name, r.Get, strings.Join(r.fetch[1:], " "), strings.Join(r.Env, " "))
	}
	testkit.Golden(t, "builtin.txt", got.String())
}

func TestFind_NamesAndAliases(t *testing.T) {
	m := newMachine(t)
	m.write(".config/acphost/agents.json", `{"agents": [{"id": "claude", "distribution": {}}]}`)
	c := m.load()
	for name, want := range map[string]string{"gemini": "gemini", "codex": "codex-acp", "qwen": "qwen-code", "pi": "pi-acp", "claude": "claude", "claude-acp": "claude-acp"} {
		if a, err := c.Find(name); err != nil || a.ID != want {
			t.Errorf("Find(%q) is %q and %v, want %q", name, a.ID, err, want)
		}
	}
	_, err := c.Find("gpt")
	if unknown, ok := errors.AsType[*UnknownError](err); !ok || !strings.Contains(err.Error(), "opencode") || len(unknown.Known) != 12 {
		t.Errorf("an unknown name: %v", err)
	}
}

func TestLoad_UsersFileBeforeRegistryBeforeBuiltIn(t *testing.T) {
	m := newMachine(t)
	m.write(".config/acphost/registry.json", `{"version": "1.0.0", "extensions": [], "agents": [
		{"id": "gemini", "name": "G", "version": "9.0.0", "description": "d", "icon": "x", "preview": {},
		 "distribution": {"npx": {"package": "@google/gemini-cli@9.0.0", "args": ["--acp"]}, "docker": {"image": "x"}}},
		{"id": "goose", "name": "goose", "version": "1.0.0", "description": "d", "distribution": {"docker": {"image": "x"}}}
	]}`)
	m.write(".config/acphost/agents.json", `{"agents": [
		{"id": "opencode", "distribution": {"binary": {"linux-x86_64": {"cmd": "/opt/mine"}, "linux-aarch64": {"cmd": "/opt/mine"}, "darwin-aarch64": {"cmd": "/opt/mine"}}}}
	]}`)
	c := m.load()
	gemini, err := c.Find("gemini-cli") // the alias is inherited
	if err != nil || gemini.Version != "9.0.0" || filepath.Base(gemini.Source) != RegistryFile {
		t.Errorf("gemini is %+v, %v", gemini, err)
	}
	if gemini.Distribution.NPX.Cmd != "gemini" {
		t.Errorf("the command of the same package was not kept: %+v", gemini.Distribution.NPX)
	}
	if o, err := c.Find("opencode"); err != nil || o.Distribution.NPX != nil || o.Source == "" || o.Name != "opencode" {
		t.Errorf("opencode is %+v, %v", o, err)
	}
	if _, err := c.Resolve("goose"); err == nil || !strings.Contains(err.Error(), "does not come in a form") {
		t.Errorf("an agent of an unknown kind resolves: %v", err)
	}
	if len(c.Agents()) != 12 {
		t.Errorf("there are %d agents, want 12", len(c.Agents()))
	}
}

func TestLoad_ReportsMistakesWithPlaces(t *testing.T) {
	entry := func(rest string) string {
		return "{\n \"agents\": [{\"id\": \"x\", \"distribution\": {\n" + rest + "}}]}"
	}
	for _, c := range []struct{ name, text, want string }{
		{"no JSON", "{\n nope", `:2:3: expected JSON: `},
		{"no object", `[]`, `:1:1: expected an object, got a list`},
		{"no agents", `{}`, `:1:1: expected an object with "agents"`},
		{"agents that are no list", `{"agents": {}}`, `:1:12: agents: expected a list, got an object`},
		{"an id", "{\"agents\": [\n{\"id\": \"X y\"}]}", `:2:8: agents[0].id: expected a-z, then`},
		{"no id", `{"agents": [{}]}`, `:1:13: agents[0].id: expected a-z`},
		{"twice", `{"agents": [{"id": "x", "distribution": {}}, {"id": "x"}]}`, `:1:53: agents[1].id: "x" stands here twice`},
		{"a name twice", `{"agents": [{"id": "x", "id": "y"}]}`, `:1:25: agents[0].id: expected JSON: duplicate`},
		{"a package of a wrong type", entry(`"npx": {"package": 7}`), `:3:20: agents[0].distribution.npx.package: expected a string, got a number`},
		{"a package that is a flag", entry(`"npx": {"package": "--call=id"}`), `:3:20: agents[0].distribution.npx.package: expected a package of the registry`},
		{"a package that is a folder", entry(`"npx": {"package": "./evil"}`), `npx.package: expected a package`},
		{"a package at an address", entry(`"uvx": {"package": "git+https://x/y"}`), `uvx.package: expected a package`},
		{"a package from elsewhere", entry(`"npx": {"package": "x@file:../evil"}`), `npx.package: expected a package`},
		{"no package", entry(`"npx": {}`), `:3:8: agents[0].distribution.npx.package: expected a package`},
		{"a command with a path", entry(`"npx": {"package": "x", "cmd": "../x"}`), `:3:32: agents[0].distribution.npx.cmd: expected the name of a command`},
		{"arguments", entry(`"npx": {"package": "x", "args": "--acp"}`), `npx.args: expected a list, got a string`},
		{"an argument", entry(`"npx": {"package": "x", "args": ["a\u0000"]}`), `npx.args[0]: expected an argument without NUL`},
		{"a default", `{"agents": [{"id": "x", "acphost": {"defaults": {"A=B": "c"}}}]}`, `acphost.defaults: expected variables without "="`},
		{"a variable", entry(`"npx": {"package": "x", "env": {"A=B": "c"}}`), `npx.env: expected variables without "="`},
		{"a program outside", entry(`"binary": {"linux-x86_64": {"archive": "u", "cmd": "../../bin/sh"}}`), `binary.linux-x86_64.cmd: expected a path that stays in the archive`},
		{"a member that dialects do not have", "{\"agents\": [{\"id\": \"x\", \"acphost\": {\"dialect\": {\n\"tools\": {\"t\": {\"knid\": \"edit\"}}}}}]}",
			`:2:17: agents[0].acphost.dialect.tools.t.knid: a dialect has no such member`},
		{"a meaning", `{"agents": [{"id": "x", "acphost": {"dialect": {"members": {"object": "file"}}}}]}`,
			`:1:71: agents[0].acphost.dialect.members.object: expected one of command, commands`},
		{"a switch", `{"agents": [{"id": "x", "acphost": {"dialect": {"title_is_command": 1}}}]}`,
			`agents[0].acphost.dialect.title_is_command: expected true or false, got a number`},
		{"an alias", `{"agents": [{"id": "x", "distribution": {}, "acphost": {"aliases": ["A"]}}]}`, `agents[0].acphost.aliases[0]: expected a-z`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			file := m.write(".config/acphost/agents.json", c.text)
			_, err := Load(m.env)
			if _, ok := errors.AsType[*ManifestError](err); !ok || !strings.HasPrefix(err.Error(), file+":") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %s%s", err, file, c.want)
			}
		})
	}
}

func TestHosts_BuiltInOrFromUsersFile(t *testing.T) {
	m := newMachine(t)
	hosts := func(name string) string { return fmt.Sprint(m.load().Machines(name).Needed) }
	const builtIn = "[api.anthropic.com:443 claude.ai:443 platform.claude.com:443]"
	if got := hosts("claude"); got != builtIn {
		t.Errorf("got %s", got)
	}
	const other = `{"agents": [{"id": "claude-acp", "acphost": {"hosts": ["*.evil.example"]}}]}`
	m.write(".config/acphost/registry.json", other)
	if got := hosts("claude"); got != builtIn {
		t.Errorf("a downloaded registry says %s", got)
	}
	m.write(".config/acphost/agents.json", strings.ReplaceAll(other, "evil", "proxy"))
	if got := hosts("claude"); got != "[*.proxy.example]" {
		t.Errorf("agents.json says %s", got)
	}
	if got := hosts("pi"); got != "[]" {
		t.Errorf("got %s of an agent of which nothing is known", got)
	}
	m.write(".config/acphost/agents.json", `{"agents": [{"id": "claude-acp", "acphost": {"hosts": ["https://a"]}}]}`)
	if _, err := Load(m.env); err == nil || !strings.Contains(err.Error(), "expected a machine like api.example.com:443") {
		t.Errorf("the error is %v", err)
	}
}

func TestDialect_OnlyFromUsersFile(t *testing.T) {
	m := newMachine(t)
	const trusting = `{"agents": [{"id": "gemini", "acphost": {"dialect": {"title_is_command": true}}}]}`
	m.write(".config/acphost/registry.json", trusting)
	if d := m.load().Dialect("gemini"); d != nil {
		t.Errorf("a downloaded registry says %+v", d)
	}
	m.write(".config/acphost/agents.json", trusting)
	c := m.load()
	if d := c.Dialect("gemini"); d == nil || !d.TitleIsCommand || c.Dialect("gemini-cli") != d {
		t.Errorf("agents.json says %+v", d)
	}
	for _, other := range []string{"codex", "nobody", ""} {
		if d := c.Dialect(other); d != nil {
			t.Errorf("it says of %q: %+v", other, d)
		}
	}
	// An entry that says nothing of how the agent comes is about the one that is known.
	if a, err := c.Find("gemini"); err != nil || a.Distribution.NPX == nil || a.Version == "" {
		t.Errorf("gemini is %+v, %v", a, err)
	}
}

func TestLoad_RejectsFileWritableByOthers(t *testing.T) {
	m := newMachine(t)
	file := m.write(".config/acphost/agents.json", `{"agents": []}`)
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(m.env); err == nil || !strings.Contains(err.Error(), "chmod o-w") {
		t.Errorf("the error is %v", err)
	}
}

func TestLoad_IgnoresWorkingDirectory(t *testing.T) {
	m := newMachine(t)
	m.write("ws/agents.json", `{"agents": [{"id": "gemini", "distribution": {"binary": {}}}]}`)
	m.write("ws/.config/acphost/agents.json", "broken")
	m.write("ws/bin/gemini", program)
	m.write("ws/node_modules/.bin/gemini", program)
	m.write("ws/node_modules/@google/gemini-cli/package.json", `{"name": "@google/gemini-cli", "version": "0.61.0", "bin": "gemini"}`)
	t.Chdir(filepath.Join(m.home, "ws"))
	if r := m.resolve("gemini"); r.Found != "" || len(r.Command) > 0 || r.fetch != nil || !strings.Contains(r.Get, "install Node.js") {
		t.Errorf("something of the workspace counts: %+v", r)
	}
}

func TestResolve_FindsCommandOnPATH(t *testing.T) {
	m := newMachine(t)
	m.write("lib/node_modules/@google/gemini-cli/package.json", `{"name": "@google/gemini-cli", "version": "0.37.1", "bin": {"gemini": "x.js"}}`)
	m.write("lib/node_modules/@google/gemini-cli/x.js", program)
	m.link("../lib/node_modules/@google/gemini-cli/x.js", "bin/gemini")
	r := m.resolve("gemini")
	want := []string{filepath.Join(m.home, "bin/gemini"), "--acp"}
	if r.Found != FoundOnPath || r.Installed != "0.37.1" || !slices.Equal(r.Command, want) {
		t.Errorf("resolved as %+v, want %q of 0.37.1", r, want)
	}
	if login := r.Login(); !slices.Equal(login, want[:1]) {
		t.Errorf("the login is %q", login)
	}
	if got, err := r.Fetch(t.Context(), nil); err != nil || got != r {
		t.Errorf("what is there was fetched: %v", err)
	}
	m.write("bin/opencode", program) // installed in another way: the version is not known
	if r := m.resolve("opencode"); r.Found != FoundOnPath || r.Installed != "" || !slices.Equal(r.Login()[1:], []string{"auth", "login"}) {
		t.Errorf("resolved as %+v", r)
	}
	if r := m.resolve("codex"); r.Login() != nil {
		t.Errorf("a login is known for what is not there: %q", r.Login())
	}
}

func TestResolve_SetsVariablesThatMakeAgentAsk(t *testing.T) {
	const plain = `CODEX_CONFIG={"features":{"shell_snapshot":false}}`
	m := newMachine(t)
	if r := m.resolve("codex"); !slices.Equal(r.Env, []string{plain, "INITIAL_AGENT_MODE=read-only"}) {
		t.Errorf("codex gets %q", r.Env)
	}
	m.vars["INITIAL_AGENT_MODE"] = "agent"
	if r := m.resolve("codex"); !slices.Equal(r.Env, []string{plain}) {
		t.Errorf("in an environment that says another mode codex gets %q", r.Env)
	}
	delete(m.vars, "INITIAL_AGENT_MODE")
	// The registry's own entry says nothing of it.
	m.write(".config/acphost/registry.json", `{"agents": [{"id": "codex-acp", "distribution": {"npx": {"package": "@agentclientprotocol/codex-acp@9.0.0"}}}]}`)
	if r := m.resolve("codex"); !slices.Equal(r.Env, []string{plain, "INITIAL_AGENT_MODE=read-only"}) {
		t.Errorf("codex of the registry gets %q", r.Env)
	}
	m.write(".config/acphost/agents.json", `{"agents": [{"id": "codex-acp", "acphost": {"defaults": {}}, "distribution": {"npx": {"package": "@agentclientprotocol/codex-acp@9.0.0", "env": {"A": "1"}}}}]}`)
	if r := m.resolve("codex"); !slices.Equal(r.Env, []string{"A=1"}) {
		t.Errorf("codex without defaults gets %q", r.Env)
	}
	m.write(".config/acphost/agents.json", `{"agents": [{"id": "codex-acp", "distribution": {"npx": {"package": "@agentclientprotocol/codex-acp@9.0.0", "env": {"INITIAL_AGENT_MODE": "workspace-write"}}}}]}`)
	if r := m.resolve("codex"); !slices.Equal(r.Env, []string{"INITIAL_AGENT_MODE=workspace-write", plain}) {
		t.Errorf("codex with a mode of its entry's gets %q", r.Env)
	}
}

func TestResolve_GuessedCommandMustBelongToPackage(t *testing.T) {
	m := newMachine(t)
	m.write(".config/acphost/agents.json", `{"agents": [{"id": "x", "distribution": {"npx": {"package": "@x/cli@1.0.0", "env": {"B": "2", "A": "1"}}}}]}`)
	m.write("bin/cli", program)
	if r := m.resolve("x"); r.Found != "" {
		t.Errorf("another program is taken for the agent: %+v", r)
	}
	if err := os.Remove(filepath.Join(m.home, "bin/cli")); err != nil {
		t.Fatal(err)
	}
	m.write("lib/node_modules/@x/cli/package.json", `{"name": "@x/cli", "version": "1.2.0", "bin": "c.js"}`)
	m.write("lib/node_modules/@x/cli/c.js", program)
	m.link(filepath.Join(m.home, "lib/node_modules/@x/cli/c.js"), "bin/cli")
	if r := m.resolve("x"); r.Found != FoundOnPath || r.Installed != "1.2.0" || !slices.Equal(r.Env, []string{"A=1", "B=2"}) {
		t.Errorf("resolved as %+v", r)
	}
}

func TestResolve_UsesNpxCache(t *testing.T) {
	m := newMachine(t)
	put := func(cache, hash, version string) {
		at := cache + "/_npx/" + hash + "/node_modules/"
		m.write(at+"@qwen-code/qwen-code/package.json", `{"name": "@qwen-code/qwen-code", "version": "`+version+`", "bin": {"qwen": "q.js", "other": "o.js"}}`)
		m.write(at+"@qwen-code/qwen-code/q.js", program)
		m.link("../@qwen-code/qwen-code/q.js", at+".bin/qwen")
	}
	put(".npm", "aaaa", "0.1.0")
	if r := m.resolve("qwen"); r.Found != "" {
		t.Errorf("another version is taken for the one that the preset names: %+v", r)
	}
	put(".npm", "bbbb", "0.24.4")
	r := m.resolve("qwen")
	if want := filepath.Join(m.home, ".npm/_npx/bbbb/node_modules/.bin/qwen"); r.Found != FoundInCache || r.Installed != "0.24.4" || r.Command[0] != want {
		t.Errorf("resolved as %+v, want %s", r, want)
	}
	m.vars["npm_config_cache"] = filepath.Join(m.home, "elsewhere")
	if r := m.resolve("qwen"); r.Found != "" {
		t.Errorf("npm's cache is elsewhere, but: %+v", r)
	}
	put("elsewhere", "cccc", "0.24.4")
	if r := m.resolve("qwen"); r.Found != FoundInCache {
		t.Errorf("resolved as %+v", r)
	}
}

func TestResolve_FindsUvTool(t *testing.T) {
	m := newMachine(t)
	m.write(".config/acphost/agents.json", `{"agents": [
		{"id": "fast", "distribution": {"uvx": {"package": "fast-agent[acp]==0.3.0", "cmd": "fast-agent-acp", "args": ["serve"]}}},
		{"id": "plain", "distribution": {"uvx": {"package": "plain@1.0.0"}}}
	]}`)
	if r := m.resolve("fast"); len(r.Command) > 0 || r.Get != "uv tool install fast-agent[acp]==0.3.0 (install uv first)" {
		t.Errorf("without uv: %+v", r)
	}
	uvx := m.write("bin/uvx", program)
	if r := m.resolve("fast"); r.Found != "" || !slices.Equal(r.Command, []string{uvx, "--from", "fast-agent[acp]==0.3.0", "fast-agent-acp", "serve"}) {
		t.Errorf("by uvx: %+v", r)
	}
	if r := m.resolve("plain"); !slices.Equal(r.Command, []string{uvx, "plain@1.0.0"}) {
		t.Errorf("by uvx: %+v", r)
	}
	tool := m.write(".local/share/uv/tools/fast-agent/bin/fast-agent-acp", program)
	m.write(".local/share/uv/tools/fast-agent/lib/python3.13/site-packages/fast_agent-0.2.9.dist-info/METADATA", "x")
	if r := m.resolve("fast"); r.Found != FoundAsTool || r.Installed != "0.2.9" || r.Command[0] != tool {
		t.Errorf("as a tool: %+v", r)
	}
	onPath := m.link(tool, "bin/fast-agent-acp")
	if r := m.resolve("fast"); r.Found != FoundOnPath || r.Installed != "0.2.9" || r.Command[0] != onPath {
		t.Errorf("on PATH: %+v", r)
	}
}

func TestResolve_FindsBinary(t *testing.T) {
	m := newMachine(t)
	entry := map[string]any{Platform(): map[string]any{"archive": "https://x/y.tgz", "cmd": "./y/agent", "args": []string{"acp"}}}
	text, err := json.Marshal(map[string]any{"agents": []any{map[string]any{"id": "y", "distribution": map[string]any{"binary": entry}}}})
	if err != nil {
		t.Fatal(err)
	}
	m.write(".config/acphost/agents.json", string(text))
	r := m.resolve("y")
	if want := "unpack https://x/y.tgz in " + filepath.Join(m.home, ".local/share/acphost/agents/y"); r.Found != "" || r.Get != want {
		t.Errorf("resolved as %+v, want %q", r, want)
	}
	if _, err := r.Fetch(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "the agent y is not installed; get it with: unpack") {
		t.Errorf("fetching it: %v", err)
	}
	onPath := m.write("bin/agent", program)
	if r := m.resolve("y"); r.Found != FoundOnPath || !slices.Equal(r.Command, []string{onPath, "acp"}) {
		t.Errorf("resolved as %+v", r)
	}
	unpacked := m.write(".local/share/acphost/agents/y/y/agent", program)
	if r := m.resolve("y"); r.Found != FoundInFolder || r.Command[0] != unpacked {
		t.Errorf("resolved as %+v", r)
	}
}

func TestResolve_PrefersInstalled(t *testing.T) {
	m := newMachine(t)
	m.write("bin/npx", program)
	m.write(".config/acphost/agents.json", `{"agents": [{"id": "z", "distribution": {"npx": {"package": "z"}, "uvx": {"package": "z-agent", "cmd": "z-agent"}}}]}`)
	if r := m.resolve("z"); r.Kind != KindNPX || r.fetch == nil {
		t.Errorf("resolved as %+v", r)
	}
	m.write("bin/z-agent", program)
	if r := m.resolve("z"); r.Kind != KindUVX || r.Found != FoundOnPath {
		t.Errorf("resolved as %+v", r)
	}
}

func TestFetch_RunsNpxOutsideWorkspace(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the stand-in for npx is a shell script")
	}
	m := newMachine(t)
	t.Setenv("HOME", m.home)
	t.Chdir(t.TempDir())
	m.write("bin/npx", `#!/bin/sh
echo "in $(pwd): $*"
at="$HOME/.npm/_npx/ffff/node_modules"
mkdir -p "$at/opencode-ai" "$at/.bin"
echo '{"name": "opencode-ai", "version": "1.18.33", "bin": {"opencode": "o"}}' >"$at/opencode-ai/package.json"
printf '#!/bin/sh\n' >"$at/opencode-ai/o"
chmod +x "$at/opencode-ai/o"
ln -s ../opencode-ai/o "$at/.bin/opencode"
`)
	var said bytes.Buffer
	r, err := m.resolve("opencode").Fetch(t.Context(), &said)
	if err != nil {
		t.Fatal(err)
	}
	if want := "in /: --yes --package=opencode-ai@1.18.33 --call true\n"; said.String() != want {
		t.Errorf("npx was called %q, want %q", said.String(), want)
	}
	if want := filepath.Join(m.home, ".npm/_npx/ffff/node_modules/.bin/opencode"); r.Found != FoundInCache || !slices.Equal(r.Command, []string{want, "acp"}) {
		t.Errorf("resolved as %+v", r)
	}
}

func TestFetch_ErrorNamesRemedy(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"npx fails", "exit 3", "fetch opencode-ai@1.18.33 with npx: exit status 3; try it by hand: npm install -g opencode-ai@1.18.33"},
		{"npx does nothing", "exit 0", "npx fetched opencode-ai@1.18.33, but its command is not in "},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.write("bin/npx", "#!/bin/sh\n"+c.script+"\n")
			if _, err := m.resolve("opencode").Fetch(t.Context(), &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzManifest_ErrorHasPlace(f *testing.F) {
	f.Add(builtin)
	f.Add([]byte(`{"agents": [{"id": "x", "distribution": {"npx": {"package": 7}}}]}`))
	f.Add([]byte("{\n nope"))
	f.Add([]byte(`{"agents":[{"id":"a~b/c"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		agents, err := parse("f", data)
		if err == nil {
			for _, a := range agents {
				if !idForm.MatchString(a.ID) {
					t.Errorf("the id %q passed", a.ID)
				}
			}
			return
		}
		wrong, ok := errors.AsType[*ManifestError](err)
		if !ok || wrong.Line < 1 || wrong.Column < 1 || wrong.Line > 1+bytes.Count(data, []byte("\n")) {
			t.Errorf("the error is %#v", err)
		}
	})
}

func TestDocs_ExampleFileIsRead(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/agent-entries.md")
	if err != nil {
		t.Fatal(err)
	}
	var agents []Agent
	for rest := string(page); ; {
		_, after, found := strings.Cut(rest, "```json\n{\"agents\"")
		if !found {
			break
		}
		text, after, _ := strings.Cut(after, "```")
		more, problem := parse("agent-entries.md", []byte(`{"agents"`+text))
		rest, agents, err = after, append(agents, more...), cmp.Or(err, problem)
	}
	if len(agents) != 3 || agents[2].Own.Dialect.Tools["frobnicate"].Members["object"] != "path" {
		t.Fatalf("docs/agent-entries.md shows %+v", agents)
	}
	if full := agents[1]; err != nil || full.Distribution.NPX.Env["MODE"] != "acp" || !slices.Equal(full.Own.Login, []string{"auth", "login"}) {
		t.Errorf("read as %+v, %v", full, err)
	}
}

func TestBuiltinPresets_NameTestedVersions(t *testing.T) {
	makefile, err := os.ReadFile("../../../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	agents, err := parse("", builtin)
	if err != nil {
		t.Fatal(err)
	}
	pins := strings.Fields(string(makefile))
	for _, a := range agents {
		name, version := splitPackage(a.Distribution.NPX.Package)
		if version != a.Version || !slices.Contains(a.Own.Tested, version) {
			t.Errorf("%s installs version %q and stands for %q; it was tested with %q", a.ID, version, a.Version, a.Own.Tested)
		}
		if !slices.Contains(pins, name+"@"+version) {
			t.Errorf("the Makefile does not install %s@%s for \"make agents\"", name, version)
		}
	}
}
