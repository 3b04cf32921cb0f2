package config_test

import (
	"cmp"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/internal/yamlproto"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/ownhandler"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// environment looks up variables in a fixed set.
func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for _, p := range pairs {
			if value, ok := strings.CutPrefix(p, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

// write makes a configuration file in a folder of its own and returns its path.
func write(t testing.TB, text string) string {
	t.Helper()
	text = cmp.Or(text, "{}") // a file without content is an error
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func load(t testing.TB, text string) *config.Config {
	t.Helper()
	c, err := config.Load(write(t, text), environment("HOME=/home/me"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLoad_ReportsMistakesWithPlaces(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			path := write(t, string(data))
			_, err = config.Load(path, environment("HOME=/home/me"))
			if err == nil {
				t.Fatal("it was taken, want errors")
			}
			if one := (*yamlproto.Error)(nil); !errors.As(err, &one) {
				t.Errorf("the error holds no *yamlproto.Error: %v", err)
			}
			got := strings.ReplaceAll(strings.ReplaceAll(err.Error(), path, filepath.Base(file)), filepath.Dir(path), "/folder") + "\n"
			testkit.Golden(t, "errors/"+name+".golden", got)
		})
	}
}

func TestLoad_FindsFile(t *testing.T) {
	home, xdg := t.TempDir(), t.TempDir()
	put := func(name string) string {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	inHome := put(filepath.Join(home, ".config/acphost/config.yaml"))
	inXDG := put(filepath.Join(xdg, "acphost/config.yaml"))
	named := put(filepath.Join(home, "named.yaml"))
	for _, c := range []struct {
		name string
		path string
		env  []string
		want string
	}{
		{"a flag wins", named, []string{"ACPHOST_CONFIG=" + inHome, "HOME=" + home}, named},
		{"the variable comes next", "", []string{"ACPHOST_CONFIG=" + named, "HOME=" + home}, named},
		{"then XDG_CONFIG_HOME", "", []string{"XDG_CONFIG_HOME=" + xdg, "HOME=" + home}, inXDG},
		{"then the home directory", "", []string{"HOME=" + home}, inHome},
		{"a relative XDG_CONFIG_HOME is ignored", "", []string{"XDG_CONFIG_HOME=.", "HOME=" + home}, inHome},
		{"a default file need not be there", "", []string{"HOME=" + xdg}, ""},
		{"there may be no home at all", "", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := config.Load(c.path, environment(c.env...))
			if err != nil {
				t.Fatal(err)
			}
			if got.File != c.want {
				t.Errorf("the file is %q, want %q", got.File, c.want)
			}
			if got.Proto == nil || len(got.Effective().GetHandlers()) != 3 {
				t.Error("the defaults are missing")
			}
		})
	}
}

func TestLoad_RejectsUntrustedFiles(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := write(t, "")
	if err := os.Chmod(open, 0o602); err != nil {
		t.Fatal(err)
	}
	folder := write(t, "")
	if err := os.Chmod(filepath.Dir(folder), 0o777); err != nil {
		t.Fatal(err)
	}
	long := write(t, strings.Repeat("#", 1<<20+1))
	for _, c := range []struct{ name, path, want string }{
		{"a named file that is missing", filepath.Join(dir, "missing.yaml"), "no such file"},
		{"a folder", dir, "is not a regular file"},
		{"a named pipe, without waiting for its writer", filepath.Join(dir, "fifo"), "is not a regular file"},
		{"a file that everyone can write", open, "chmod o-w"},
		{"a file in a folder that everyone can write", folder, "lies in a folder that everyone can write"},
		{"a huge file", long, "is longer than 1048576 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := config.Load(c.path, environment()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestLoad_RejectsFileOfOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	file := write(t, "")
	if err := os.Chown(file, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(file, environment()); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("error is %v, want it to name the owner", err)
	}
}

func TestLoad_WarnsOfGroupWritableFile(t *testing.T) {
	file := write(t, "")
	if err := os.Chmod(file, 0o660); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, environment())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "chmod g-w") {
		t.Errorf("warnings are %q, want one that says chmod g-w", c.Warnings)
	}
}

const full = `
handlers:
  terminal:
    command: [./bin/termd, --flag]
    sha256: ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789
  fs:
    settings: {max_content_bytes: 2048}
  remote:
    address: tcp://host:1
    tls: {ca: keys/ca.pem, cert: /abs/cert.pem, key: ../key.pem}
  side:
    address: unix:///run/side.sock
    secret_file: keys/side
routes: {"fs/*": front, _x/y: side}
workspace:
  extra_roots:
    - path: ~/shared
      read_only: true
permission: {policy: rules.yaml}
limits: {max_message_bytes: 1073741824}
`

func TestLoad_ResolvesPathsAgainstFile(t *testing.T) {
	c := load(t, full)
	dir := filepath.Dir(c.File)
	for _, p := range []struct{ what, got, want string }{
		{"program", c.Proto.Handlers["terminal"].Command[0], dir + "/bin/termd"},
		{"argument", c.Proto.Handlers["terminal"].Command[1], "--flag"},
		{"sha256", c.Proto.Handlers["terminal"].Sha256[:6], "abcdef"},
		{"ca", c.Proto.Handlers["remote"].Tls.Ca, dir + "/keys/ca.pem"},
		{"cert", c.Proto.Handlers["remote"].Tls.Cert, "/abs/cert.pem"},
		{"key", c.Proto.Handlers["remote"].Tls.Key, filepath.Dir(dir) + "/key.pem"},
		{"extra root", c.Proto.Workspace.ExtraRoots[0].Path, "/home/me/shared"},
		{"policy", c.Proto.Permission.Policy, dir + "/rules.yaml"},
	} {
		if p.got != p.want {
			t.Errorf("%s is %s, want %s", p.what, p.got, p.want)
		}
	}
}

func TestEffective_HasDefaults(t *testing.T) {
	c := load(t, full)
	before := proto.CloneOf(c.Proto)
	e := c.Effective()
	if !proto.Equal(before, c.Proto) {
		t.Error("Effective changed the configuration itself")
	}
	if got := slices.Sorted(maps.Keys(e.Handlers)); !slices.Equal(got, []string{"fs", "permission", "remote", "side", "terminal"}) {
		t.Errorf("handlers are %v", got)
	}
	if got := e.Handlers["fs"]; !slices.Equal(got.Command, []string{"fsd"}) || got.Settings.Fields["max_content_bytes"].GetNumberValue() != 2048 {
		t.Errorf("fs is %v, want fsd with its settings", got)
	}
	if got := e.Handlers["permission"]; !slices.Equal(got.Command, []string{"permd"}) || got.Settings.Fields["policy"].GetStringValue() != c.Proto.Permission.Policy {
		t.Errorf("permission is %v, want permd with the policy", got)
	}
	if got := e.Handlers["terminal"].Command; len(got) != 2 || !strings.HasSuffix(got[0], "/bin/termd") {
		t.Errorf("terminal runs %v, want what the file says", got)
	}
	if e.Limits.MaxQueuedBytes != 1<<30 {
		t.Errorf("max_queued_bytes is %d, want one longest message", e.Limits.MaxQueuedBytes)
	}
	if e.Agent.InitializeTimeoutSeconds != 60 || e.Agent.StopGraceMs != 5000 || e.Limits.MaxConcurrentRequests != 64 ||
		e.Limits.MaxQueuedRequests != 1024 || e.Log.Level != "warn" || e.Log.Format != "text" || e.Workspace.StaleWrites != "allow" {
		t.Errorf("defaults are missing: %v", e)
	}
	if e := load(t, "").Effective(); e.Limits.MaxQueuedBytes != 100<<20 || e.Limits.MaxMessageBytes != 100<<20 {
		t.Errorf("limits are %v, want the defaults", e.Limits)
	}
}

func TestShow_OutputLoadsAgain(t *testing.T) {
	for _, text := range []string{
		full, "", "permission: {policy: workspace}", "permission: {command: [./mine, --x]}", "permission: [{address: 'unix:///s', secret_file: k}]",
		"permission: [./mine, permd, {address: 'unix:///s', secret_file: k, decide_timeout_ms: 7}]", "permission: {policy: rules.yaml, chain: [./mine, permd]}",
		"permission: {workspace_policy: ignore}", "handlers: {permission: {settings: {policy: headless, adminPolicy: /a}}}",
		"handlers: {permission: {command: [./mine], env: {A: b}}}",
	} {
		t.Run(text, func(t *testing.T) { shownAgain(t, text) })
	}
}

func shownAgain(t *testing.T, text string) {
	c := load(t, text)
	shown, err := yamlproto.Marshal(c.Shown())
	if err != nil {
		t.Fatal(err)
	}
	again, err := config.Load(write(t, string(shown)), environment("HOME=/home/me"))
	if err != nil {
		t.Fatalf("%v\n%s", err, shown)
	}
	if again.PolicySet() != c.PolicySet() {
		t.Errorf("a policy is chosen: %v, want %v", again.PolicySet(), c.PolicySet())
	}
	if !proto.Equal(again.Effective(), c.Effective()) {
		t.Errorf("got %v\nwant %v", again.Effective(), c.Effective())
	}
}

func TestRedacted_HidesSecrets(t *testing.T) {
	c := load(t, `
handlers:
  mine:
    command: [./mine, --api-key=hush1, --token, hush2, --url=https://me:hush3@host/, --verbose, plain]
    env: {GITHUB_TOKEN: hush4, DB_PASSWORD: hush5, STRIPE_KEY: hush6, HTTPS_PROXY: "http://u:hush7@proxy:1", PLAIN: plain, KEYBOARD: plain}
    settings:
      apiKey: hush8
      max_tokens: 4096
      nested: {client_secret: {value: hush9}, list: [{auth: hush10}], note: plain}
`)
	shown, err := yamlproto.Marshal(config.Redacted(c.Shown()))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(shown), "hush") {
		t.Errorf("secrets are shown:\n%s", shown)
	}
	for want, n := range map[string]int{"plain": 4, "4096": 1, "[redacted]": 10, "@proxy:1": 1, "--verbose": 1} {
		if got := strings.Count(string(shown), want); got != n {
			t.Errorf("%q is shown %d times, want %d:\n%s", want, got, n, shown)
		}
	}
	if c.Proto.Handlers["mine"].Env["GITHUB_TOKEN"] != "hush4" {
		t.Error("redacting changed the configuration itself")
	}
}

func TestProtected_HasOwnFiles(t *testing.T) {
	real := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(real, "config.yaml"), []byte(full), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(filepath.Join(link, "config.yaml"), environment("HOME=/home/me"))
	if err != nil {
		t.Fatal(err)
	}
	got := c.ProtectedPaths("/run/acphost", "")
	for _, want := range []string{
		"/home/me/.config/acphost", link + "/config.yaml", real + "/config.yaml", link + "/rules.yaml", real + "/rules.yaml",
		link + "/keys/ca.pem", "/abs/cert.pem", "/run/side.sock", "/run/acphost",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not protected; these are: %v", want, got)
		}
	}
	if !slices.IsSorted(got) || slices.Contains(got, "") {
		t.Errorf("paths are not sorted, or one is empty: %q", got)
	}
}

func TestCheckFiles_ReportsMissingFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fsd"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	c := load(t, `
permission: {policy: rules.yaml}
handlers:
  fs: {command: [fsd]}
  mine: {command: [mine]}
  side: {address: "tcp://h:1", tls: {ca: /dev/null, cert: b, key: c}}
`)
	err := c.CheckFiles(ownhandler.Programs{Dir: dir})
	if err == nil {
		t.Fatal("nothing is missing, want errors")
	}
	for _, want := range []string{
		c.File + ":5:", "handlers.mine.command[0]: stat " + dir + "/mine: no such file", "permission.policy: stat ", "handlers.side.tls.ca: /dev/null is not a regular file",
		"handlers.side.tls.key: stat ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "handlers.fs") {
		t.Errorf("fsd is there, but the error is %v", err)
	}
	if err := load(t, "").CheckFiles(ownhandler.Programs{Dir: dir}); err != nil {
		t.Errorf("the defaults name no file, but the error is %v", err)
	}
}

func TestKind_ByHandlerName(t *testing.T) {
	for name, want := range map[string]string{"fs": route.KindFS, "terminal": route.KindTerminal, "permission": route.KindPermission, "acme": route.KindExtension} {
		if got := config.Kind(name); got != want {
			t.Errorf("the kind of %s is %s, want %s", name, got, want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(full)
	f.Add("handlers: {fs: {settings: {max_content_bytes: 1}}}")
	f.Add("routes: {'*': x}")
	f.Add("permission: [./a, permd]")
	f.Add("permission: {policy: ask, gate: [x], audit: {keep: 2}}")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Load(write(t, text), environment("HOME=/home/me"))
		if err != nil {
			return
		}
		c.Effective()
		c.ProtectedPaths()
		if _, err := yamlproto.Marshal(config.Redacted(c.Shown())); err != nil {
			t.Errorf("cannot be shown: %v", err)
		}
	})
}
