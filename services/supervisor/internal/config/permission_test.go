package config_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/yamlproto"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/ownhandler"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
)

// deciders returns the permission handlers in effect, "permission" first.
func deciders(c *config.Config) []*configv1.Handler {
	e := c.Effective()
	var all []*configv1.Handler
	for _, name := range slices.Sorted(maps.Keys(e.GetHandlers())) {
		if config.Kind(name) == route.KindPermission {
			all = append(all, e.GetHandlers()[name])
		}
	}
	return all
}

func TestPermission_FormsOfPolicies(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string // command or address of each
	}{
		{"nothing said", "", []string{"permd"}},
		{"a rule file", "permission: {policy: rules.yaml}", []string{"permd"}},
		{"a command", "permission: {command: [./mine, --x]}", []string{"DIR/mine --x"}},
		{"an address", "permission: [{address: 'unix:///s', secret_file: k}]", []string{"unix:///s"}},
		{"a handler", "handlers: {permission: {command: [./mine]}}", []string{"DIR/mine"}},
		{"a chain", "permission: {chain: [{command: [./mine]}, {address: 'unix:///s', secret_file: k}]}", []string{"DIR/mine", "unix:///s"}},
		{"a list", "permission: [./mine, permd, {command: [other, --y]}]", []string{"DIR/mine", "permd", "other --y"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := load(t, c.text)
			var got []string
			for _, h := range deciders(cfg) {
				got = append(got, strings.Join(h.GetCommand(), " ")+h.GetAddress())
				if h.GetDecideTimeoutMs() != 5000 {
					t.Errorf("%v has %d ms to decide, want 5000", h, h.GetDecideTimeoutMs())
				}
			}
			for i := range c.want {
				c.want[i] = strings.Replace(c.want[i], "DIR", filepath.Dir(cfg.File), 1)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("they are %q, want %q", got, c.want)
			}
		})
	}
	if h := deciders(load(t, "permission: [{command: [permd], decide_timeout_ms: 70}]"))[0]; h.GetDecideTimeoutMs() != 70 {
		t.Errorf("permd has %d ms, want what the file says", h.GetDecideTimeoutMs())
	}
}

func TestPermission_PassesRuleFilesToPermd(t *testing.T) {
	const admin, trust = "/etc/acphost/policy.yaml", "/home/me/.local/state/acphost/trust.json"
	for _, c := range []struct{ name, text, want string }{
		{"nothing said", "", "|" + admin + "|.acphost/policy.yaml|" + trust},
		{"a rule file", "permission: {policy: r.yaml}", "DIR/r.yaml|" + admin + "|.acphost/policy.yaml|" + trust},
		{"a ready policy", "permission: {policy: headless}", "headless|" + admin + "|.acphost/policy.yaml|" + trust},
		{"a file that is called as a ready policy", "permission: {policy: ./headless}", "DIR/headless|" + admin + "|.acphost/policy.yaml|" + trust},
		{"an administrator's file", "permission: {admin_policy: /a/./b}", "|/a/b|.acphost/policy.yaml|" + trust},
		{"no workspace files", "permission: {workspace_policy: ignore}", "|" + admin + "||" + trust},
		{"in a chain", "permission: {policy: r.yaml, chain: [./mine, permd]}", "DIR/r.yaml|" + admin + "|.acphost/policy.yaml|" + trust},
		{"settings of its own", "handlers: {permission: {settings: {policy: /p, adminPolicy: /a, trust: /t}}}", "/p|/a|.acphost/policy.yaml|/t"},
		{"settings in a chain", "permission: [{command: [permd], settings: {policy: readonly}}]", "readonly|" + admin + "|.acphost/policy.yaml|" + trust},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := load(t, c.text)
			s := cfg.Permd()
			got := strings.Join([]string{s.GetPolicy(), s.GetAdminPolicy(), s.GetWorkspacePolicy(), s.GetTrust()}, "|")
			if want := strings.Replace(c.want, "DIR", filepath.Dir(cfg.File), 1); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			found := false
			for _, h := range deciders(cfg) {
				if h.GetCommand()[0] == "permd" {
					found = true
					if got := h.GetSettings().GetFields()["policy"].GetStringValue(); got != s.GetPolicy() {
						t.Errorf("its handler's settings say %q, want %q", got, s.GetPolicy())
					}
				}
			}
			if !found {
				t.Error("no handler is permd")
			}
		})
	}
	if s := load(t, "permission: {command: [./mine]}").Permd(); s != nil {
		t.Errorf("permd is replaced, but has the settings %v", s)
	}
}

// homes makes a home directory, and a configuration with an administrator's rule file that a test can make.
func homes(t *testing.T) (home, admin string) {
	dir := t.TempDir()
	home, admin = filepath.Join(dir, "home"), filepath.Join(dir, "admin.yaml")
	if err := os.MkdirAll(filepath.Join(home, ".config/acphost"), 0o700); err != nil {
		t.Fatal(err)
	}
	return home, admin
}

func TestPolicySet_DetectsChosenPolicy(t *testing.T) {
	for _, c := range []struct {
		name, text  string
		user, admin bool // their files are there
		want        bool
	}{
		{"nothing", "", false, false, false},
		{"other settings", "permission: {timeout_seconds: 5}", false, false, false},
		{"a rule file", "permission: {policy: rules.yaml}", false, false, true},
		{"a ready policy", "permission: {policy: ask}", false, false, true},
		{"the user's file at its place", "", true, false, true},
		{"the administrator's file", "permission: {admin_policy: ADMIN}", false, true, true},
		{"an administrator's file that is not there", "permission: {admin_policy: ADMIN}", false, false, false},
		{"a command", "permission: {command: [./mine]}", false, false, true},
		{"an address", "permission: [{address: 'unix:///s', secret_file: k}]", false, false, true},
		{"a chain", "permission: [./mine, permd]", false, false, true},
		{"permd without rules", "permission: [permd]", false, false, false},
		{"a handler", "handlers: {permission: {command: [./mine]}}", false, false, true},
		{"a handler with an environment", "handlers: {permission: {env: {A: b}}}", false, false, false},
		{"permd's settings", "handlers: {permission: {settings: {policy: ask}}}", false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			home, admin := homes(t)
			user := filepath.Join(home, ".config/acphost/policy.yaml")
			for file, there := range map[string]bool{user: c.user, admin: c.admin} {
				if there {
					if err := os.WriteFile(file, nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			cfg, err := config.Load(write(t, strings.Replace(c.text, "ADMIN", admin, 1)), environment("HOME="+home))
			if err != nil {
				t.Fatal(err)
			}
			if got := cfg.PolicySet(); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if c.user && (cfg.Permd().GetPolicy() != user || cfg.Effective().GetPermission().GetPolicy() != user) {
				t.Errorf("permd's rule file is %q, want %q", cfg.Permd().GetPolicy(), user)
			}
		})
	}
}

func TestPermission_NamedFileReplacesUsersFile(t *testing.T) {
	home, _ := homes(t)
	if err := os.WriteFile(filepath.Join(home, ".config/acphost/policy.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"permission: {policy: /named.yaml}":                            "/named.yaml",
		"handlers: {permission: {settings: {policy: /settings.yaml}}}": "/settings.yaml",
	} {
		cfg, err := config.Load(write(t, text), environment("HOME="+home))
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Permd().GetPolicy(); got != want {
			t.Errorf("%s: permd's rule file is %q, want %q", text, got, want)
		}
	}
}

func TestPermission_Defaults(t *testing.T) {
	p := load(t, "").Effective().GetPermission()
	text, err := yamlproto.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	want := `admin_policy: /etc/acphost/policy.yaml
workspace_policy: tighten
gate:
  - "fs/*"
  - terminal/create
  - terminal/run
timeout_seconds: 120
on_unasked: report
grants:
  file: /home/me/.local/state/acphost/grants.jsonl
  days: 90
audit:
  file: /home/me/.local/state/acphost/audit.jsonl
  max_bytes: 16777216
  keep: 8
  on_failure: deny
`
	if string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	c, err := config.Load("", environment("HOME=/home/me", "XDG_STATE_HOME=/state", "XDG_CONFIG_HOME=/nowhere"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Effective().GetPermission().GetAudit().GetFile(); got != "/state/acphost/audit.jsonl" {
		t.Errorf("the record is %s, want it under $XDG_STATE_HOME", got)
	}
}

func TestPermission_WarnsOfMissingStateFolder(t *testing.T) {
	file := write(t, "permission: {policy: ask}")
	for _, c := range []struct {
		name string
		env  []string
		want int // warnings
	}{
		{"no home", nil, 1},
		{"a relative one", []string{"XDG_STATE_HOME=state"}, 1},
		{"a home", []string{"HOME=/home/me"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := config.Load(file, environment(c.env...))
			if err != nil {
				t.Fatal(err)
			}
			p := cfg.Effective().GetPermission()
			if len(cfg.Warnings) != c.want || (p.GetGrants().GetFile() == "") != (c.want == 1) || (cfg.Permd().GetTrust() == "") != (c.want == 1) {
				t.Errorf("warnings %q, files %q and %q", cfg.Warnings, p.GetGrants().GetFile(), cfg.Permd().GetTrust())
			}
		})
	}
	cfg, err := config.Load(write(t, ""), environment())
	if err != nil || len(cfg.Warnings) != 0 {
		t.Errorf("without a policy nothing is kept anyway, but: %q, %v", cfg.Warnings, err)
	}
}

func TestStateFolder_WarningNamesMissingFiles(t *testing.T) {
	for settings, want := range map[string]string{
		"":                                      ": remembered answers and the record of decisions are kept in no file",
		"audit: {file: /a}":                     ": remembered answers are kept in no file",
		"grants: {file: /g}":                    ": the record of decisions is kept in no file",
		"grants: {disabled: true}":              ": the record of decisions is kept in no file",
		"audit: {disabled: true}":               ": remembered answers are kept in no file",
		"audit: {file: /a}, grants: {file: /g}": "",
	} {
		cfg, err := config.Load(write(t, "permission: {policy: ask, "+settings+"}"), environment())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(cfg.Warnings, "\n"); !strings.HasSuffix(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: warned %q, want one that ends with %q", settings, got, want)
		}
	}
}

func TestPermission_WarnsOfIgnoredAdminFile(t *testing.T) {
	_, admin := homes(t)
	text := "permission: {admin_policy: " + admin
	if w := load(t, text+"}").Warnings; len(w) != 1 || !strings.Contains(w[0], "which is not there") {
		t.Errorf("warnings are %q, want one that it is not there", w)
	}
	if err := os.WriteFile(admin, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if w := load(t, text+"}").Warnings; len(w) != 0 {
		t.Errorf("warnings are %q, want none", w)
	}
	if w := load(t, text+", command: [./mine]}").Warnings; len(w) != 1 || !strings.Contains(w[0], "does not count") {
		t.Errorf("warnings are %q, want one that it does not count", w)
	}
}

func TestProtected_HasPolicyFiles(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "policy.js")
	if err := os.WriteFile(script, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := load(t, "permission: {policy: rules.yaml, grants: {file: /var/g}, audit: {file: /var/a, keep: 2}, chain: [permd, {command: [/bin/sh, "+
		script+", /]}, {address: 'unix:///run/side.sock', secret_file: k}]}")
	got := c.ProtectedPaths()
	for _, want := range []string{
		"/home/me/.config/acphost", "/home/me/.local/state/acphost", filepath.Dir(c.File) + "/rules.yaml", "/etc/acphost",
		"/etc/acphost/policy.yaml", "/var/g", "/var/a", "/var/a.1", "/var/a.2", "/bin/sh", script, "/run/side.sock",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not protected; these are: %v", want, got)
		}
	}
	if slices.Contains(got, "/") || slices.Contains(got, "workspace") {
		t.Errorf("too much is protected: %v", got)
	}
}

func TestRedacted_HidesPolicySecrets(t *testing.T) {
	for _, text := range []string{
		"permission: {command: [./mine, --api-key=hush]}",
		"permission: [{command: [./mine, --token, hush], env: {API_TOKEN: hush}, settings: {password: hush}}]",
	} {
		shown, err := yamlproto.Marshal(config.Redacted(load(t, text).Shown()))
		if err != nil || strings.Contains(string(shown), "hush") || !strings.Contains(string(shown), "[redacted]") {
			t.Errorf("%v:\n%s", err, shown)
		}
	}
}

func TestCheckFiles_ReportsMissingPolicyFiles(t *testing.T) {
	c := load(t, "permission: {policy: rules.yaml, chain: [./mine, {command: [permd]}]}")
	err := c.CheckFiles(ownhandler.Programs{Dir: t.TempDir()})
	if err == nil {
		t.Fatal("nothing is missing, want errors")
	}
	for _, want := range []string{"permission.policy: stat ", "permission.chain[0].command[0]: stat ", "permission.chain[1].command[0]: stat "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q:\n%v", want, err)
		}
	}
	if err := load(t, "permission: {policy: workspace}").CheckFiles(ownhandler.Programs{Dir: t.TempDir()}); err != nil {
		t.Errorf("a ready policy is no file, but the error is %v", err)
	}
}

func TestPermission_RefusesEmptyValues(t *testing.T) {
	for _, key := range []string{"policy: ''", "command: []", "address: ''", "chain: []", "admin_policy: ''", "workspace_policy: ''"} {
		name, _, _ := strings.Cut(key, ":")
		_, err := config.Load(write(t, "permission: {"+key+"}"), environment("HOME=/home/me"))
		want := "permission." + name + ": expected a value, got an empty one; remove the key for the default"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
	if _, err := config.Load(write(t, "permission: []"), environment("HOME=/home/me")); err == nil || !strings.Contains(err.Error(), "permission.chain: expected a value") {
		t.Errorf("an empty list: %v", err)
	}
	load(t, "permission: {policy: null, chain: null}") // which is said to mean that it is not set
}
