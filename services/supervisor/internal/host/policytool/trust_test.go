package policytool_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
)

func holds(t *testing.T, trust *policytool.TrustStore, name, content string) bool {
	t.Helper()
	ok, err := trust.Contains(name, []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestTrust_NeedsUnchangedFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state/acphost/trust.json")
	trust := policytool.OpenTrustStore(file)
	if holds(t, trust, "/w/p", "a") {
		t.Error("something is trusted from the start")
	}
	for _, content := range []string{"old", "a"} {
		if err := trust.Add("/w/p", []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := trust.Add("/v/p", []byte("b")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, content string
		want          bool
	}{{"/w/p", "a", true}, {"/w/p", "b", false}, {"/w/p", "old", false}, {"/v/p", "b", true}, {"/x/p", "a", false}} {
		if got := holds(t, policytool.OpenTrustStore(file), c.name, c.content); got != c.want {
			t.Errorf("%s with %q is trusted: %v, want %v", c.name, c.content, got, c.want)
		}
	}
	for name, want := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has the mode %v, want %v (%v)", name, info.Mode().Perm(), want, err)
		}
	}
	found, err := trust.Remove("/w/p")
	if err != nil || !found || holds(t, trust, "/w/p", "a") || !holds(t, trust, "/v/p", "b") {
		t.Errorf("after its removal: found %v, %v", found, err)
	}
	if found, err := trust.Remove("/w/p"); err != nil || found {
		t.Errorf("once more: found %v, %v", found, err)
	}
}

func TestTrust_FormatMatchesPermd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trust.json")
	if err := policytool.OpenTrustStore(file).Add("/w/p", []byte("a")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	store := &permissionv1.TrustStore{}
	if err := protojson.Unmarshal(data, store); err != nil {
		t.Fatal(err)
	}
	if f := store.GetFiles()[0]; f.GetPath() != "/w/p" || f.GetTime() == nil ||
		f.GetSha256() != "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb" {
		t.Errorf("it holds %v", f)
	}
}

func TestTrust_ConcurrentAddsKeepAll(t *testing.T) {
	trust := policytool.OpenTrustStore(filepath.Join(t.TempDir(), "trust.json"))
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := trust.Add("/w/"+strconv.Itoa(i), []byte("a")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if files, err := trust.List(); err != nil || len(files) != 20 {
		t.Errorf("%d are trusted, %v; want 20", len(files), err)
	}
}

func TestTrust_InvalidStoreIsKept(t *testing.T) {
	file := put(t, filepath.Join(t.TempDir(), "trust.json"), "{nonsense")
	trust := policytool.OpenTrustStore(file)
	if err := trust.Add("/w/p", nil); err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("error is %v", err)
	}
	if got, _ := os.ReadFile(file); string(got) != "{nonsense" {
		t.Errorf("it was overwritten: %q", got)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := trust.List(); err == nil || !strings.Contains(err.Error(), "others can write") {
		t.Errorf("a store that everyone can write: %v", err)
	}
	if err := policytool.OpenTrustStore("").Add("/w/p", nil); err == nil || !strings.Contains(err.Error(), "$HOME") {
		t.Errorf("without a place: %v", err)
	}
}

func TestTrust_ListsStateOfFiles(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	trust := policytool.OpenTrustStore(filepath.Join(dir, "trust.json"))
	for _, name := range []string{"same", "changed", "gone"} {
		if err := trust.Add(put(t, filepath.Join(dir, name), "a"), []byte("a")); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(dir, "changed"), "b")
	if err := os.Remove(filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	files, err := trust.List()
	if err != nil {
		t.Fatal(err)
	}
	policytool.PrintTrusted(&out, policytool.Style{}, files)
	times := regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)
	golden(t, "trusted", times.ReplaceAllString(strings.ReplaceAll(out.String(), dir, "/w"), "2026-03-01 12:00:00"))
}

func TestTrust_FindsFileOfFolder(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := put(t, filepath.Join(dir, "w/.acphost/policy.yaml"), "")
	if err := os.Symlink("w", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"w", "link", "w/.acphost/policy.yaml"} {
		if got, err := policytool.WorkspaceFile(filepath.Join(dir, name), ".acphost/policy.yaml"); err != nil || got != file {
			t.Errorf("%s means %s, %v; want %s", name, got, err, file)
		}
	}
	t.Chdir(filepath.Join(dir, "link"))
	if got, err := policytool.WorkspaceFile("", ".acphost/policy.yaml"); err != nil || got != file {
		t.Errorf("this folder means %s, %v; want %s", got, err, file)
	}
}

func TestTrust_ShowsAllowRules(t *testing.T) {
	file := &permissionv1.PolicyFile{Name: "p.yaml", Content: []byte(`version: 1
rules:
  - {id: no, effect: deny, path: ["**/.env"]}
  - id: build
    effect: allow
    command: [make, "npm \e[2J"]
    when: size(action.roots) == 1
    tests: {match: [{command: make}]}
  - {id: read, effect: allow, on: [fs.read], path: ["${root}/**"], reason: "It only\u202e reads."}
`)}
	rules, err := policytool.Allows(file)
	if err != nil || len(rules) != 2 {
		t.Fatalf("got %v, %v; want two rules", rules, err)
	}
	var out bytes.Buffer
	if err := policytool.PrintAllows(&out, policytool.Style{}, file.GetName(), rules); err != nil {
		t.Fatal(err)
	}
	golden(t, "allows", out.String())
}

func TestLayers_MatchSession(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	service := serve(t, &fake{ready: []*permissionv1.ReadyPolicy{{Name: "readonly", Content: []byte("r")}}})
	settings := &permissionv1.Settings{
		Policy: "readonly", AdminPolicy: filepath.Join(dir, "admin.yaml"), WorkspacePolicy: ".acphost/policy.yaml", Trust: filepath.Join(dir, "trust.json"),
	}
	layers := func() string {
		t.Helper()
		files, err := policytool.Layers(t.Context(), service, settings, filepath.Join(dir, "w"))
		if err != nil {
			return err.Error()
		}
		var all []string
		for _, f := range files {
			all = append(all, strings.TrimPrefix(f.GetLayer().String(), "LAYER_")+"="+string(f.GetContent()))
		}
		return strings.Join(all, " ")
	}
	if got := layers(); got != "USER=r" {
		t.Errorf("got %s", got)
	}
	put(t, settings.AdminPolicy, "a")
	workspace := put(t, filepath.Join(dir, "w/.acphost/policy.yaml"), "w")
	if got := layers(); got != "ADMIN=a USER=r WORKSPACE=w" {
		t.Errorf("got %s", got)
	}
	if err := policytool.OpenTrustStore(settings.Trust).Add(workspace, []byte("w")); err != nil {
		t.Fatal(err)
	}
	if got := layers(); got != "ADMIN=a USER=r WORKSPACE_TRUSTED=w" {
		t.Errorf("got %s", got)
	}
	put(t, workspace, "changed")
	if got := layers(); got != "ADMIN=a USER=r WORKSPACE=changed" {
		t.Errorf("got %s", got)
	}
	settings.Policy = filepath.Join(dir, "missing.yaml")
	if got := layers(); !strings.HasPrefix(got, "the user's rule file: open ") {
		t.Errorf("got %s", got)
	}
}
