package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../../.."

// proxied returns an environment in which the Go command gets the modules of a release, v0.0.1-test, from a proxy of
// files, and the folder into which it installs programs, which is in PATH.
func proxied(t *testing.T) (env []string, bin string) {
	t.Helper()
	src, err := prepare(t.Context(), options{repo: root, commit: "HEAD", version: "v0.0.1-test"}, filepath.Join(t.TempDir(), "src"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := filepath.Join(t.TempDir(), "proxy")
	if err := src.writeModules(proxy); err != nil {
		t.Fatal(err)
	}
	from, err := output(t.Context(), ".", nil, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		t.Fatal(err)
	}
	mods, others, _ := strings.Cut(from, "\n") // the modules of tests of dependencies are not here yet
	bin = t.TempDir()
	return []string{
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(mods, "cache", "download") + "," + others, "GOSUMDB=off", "GOWORK=off",
		"GOFLAGS=-trimpath -modcacherw", "CGO_ENABLED=0", "GOMODCACHE=" + filepath.Join(t.TempDir(), "mod"), "GOBIN=" + bin,
		"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"),
	}, bin
}

// TestGoInstall_InstallsAllPrograms runs the lines of docs/install.md, the demo, and the prompts of the README.
func TestGoInstall_InstallsAllPrograms(t *testing.T) {
	t.Parallel()
	env, bin := proxied(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^go install \S+@latest$`).FindAllString(string(page), -1)
	if len(lines) != 2 {
		t.Fatalf("docs/install.md has the lines %q, want those that install acphost and demoagent", lines)
	}
	for i, line := range lines {
		if out, err := output(t.Context(), bin, env, "sh", "-c", strings.Replace(line, "@latest", "@v0.0.1-test", 1)); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if i > 0 {
			continue
		}
		if out, err := output(t.Context(), bin, env, filepath.Join(bin, "acphost"), "demo"); err == nil || !strings.Contains(out+err.Error(), lines[1]) {
			t.Errorf("acphost demo without its agent: got %v, want the line that installs it\n%s", err, out)
		}
	}
	version, err := output(t.Context(), bin, env, filepath.Join(bin, "acphost"), "fsd", "--version")
	if err != nil || !strings.HasPrefix(version, "fsd v0.0.1-test\n") {
		t.Errorf("acphost fsd --version printed %q, %v", version, err)
	}
	// The folder of Go's programs is not in PATH.
	env = append(env, "PATH="+os.Getenv("PATH"))
	for _, args := range [][]string{{"demo"}, {"prompt", "--policy", "workspace", "repeat hello", "--", "demoagent"}} {
		if out, err := output(t.Context(), t.TempDir(), env, filepath.Join(bin, "acphost"), args...); err != nil {
			t.Errorf("acphost %q: %v\n%s", args, err, out)
		}
	}
}

// TestModules_BuildPolicyOfDocumentation plays the author of a policy: it gets the modules of a release, builds the
// policy in docs/plugins.md, and runs the conformance cases of the modules.
func TestModules_BuildPolicyOfDocumentation(t *testing.T) {
	t.Parallel()
	env, _ := proxied(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "plugins.md"))
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile("(?s)```go\n(// Command businesshours .*?)```").FindSubmatch(page)
	recipe := regexp.MustCompile("(?s)```sh\n(mkdir my-permd.*?)acphost handler swap").FindSubmatch(page)
	if program == nil || recipe == nil {
		t.Fatal("docs/plugins.md does not show a policy and the commands that build it")
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "my-permd"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "my-permd", "main.go"), program[1], 0o600); err != nil {
		t.Fatal(err)
	}
	install := "go install github.com/acphost/acphost/sdk/cmd/acphost-conformance@v0.0.1-test\n"
	out, err := output(t.Context(), dir, env, "sh", "-euxc", install+strings.Replace(string(recipe[1]), "mkdir ", "mkdir -p ", 1))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !regexp.MustCompile(`(?m)^[1-9][0-9]* passed, 0 failed`).MatchString(out) {
		t.Errorf("the conformance cases printed %q", out)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "my-permd", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mod), "replace") || !strings.Contains(string(mod), "acphost/sdk v0.0.1-test") {
		t.Errorf("the author's go.mod is\n%s", mod)
	}
}

// clone is a repository that a test may change.
func clone(t *testing.T) string {
	t.Helper()
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	repo := filepath.Join(t.TempDir(), "repo")
	git(t, ".", "clone", "--quiet", "--no-tags", "--shared", abs, repo)
	return repo
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := output(t.Context(), dir, []string{
		"GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=n@example.com", "GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=n@example.com",
	}, "git", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTag_HasNoReplacements(t *testing.T) {
	t.Parallel()
	repo := clone(t)
	o := options{repo: repo, commit: "HEAD", version: "v0.0.1"}
	for range 2 { // the second time, nothing is new
		if err := tag(t.Context(), o, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	tags := strings.Fields(git(t, repo, "tag"))
	for _, want := range []string{"v0.0.1", "proto/v0.0.1", "internal/v0.0.1", "sdk/v0.0.1"} {
		if !strings.Contains(" "+strings.Join(tags, " ")+" ", " "+want+" ") {
			t.Errorf("there is no tag %s, only %q", want, tags)
		}
	}
	for _, module := range []string{"sdk/", ""} {
		if mod := git(t, repo, "show", "v0.0.1:"+module+"go.mod"); strings.Contains(mod, "replace") || strings.Contains(mod, "v0.0.0\n") {
			t.Errorf("%sgo.mod of the release is\n%s", module, mod)
		}
	}
	again, err := prepare(t.Context(), options{repo: repo, commit: "v0.0.1", version: "v0.0.1"}, filepath.Join(t.TempDir(), "src"))
	if err != nil {
		t.Fatal(err)
	}
	if want := git(t, repo, "rev-parse", "v0.0.1"); again.commit != want {
		t.Errorf("the tagged commit %s is released as %s", want, again.commit)
	}
	git(t, repo, "commit", "--quiet", "--allow-empty", "--message", "later")
	if err := tag(t.Context(), o, io.Discard); err == nil || !strings.Contains(err.Error(), "take the next one") {
		t.Errorf("tagging another commit with the same version: %v", err)
	}
}

func TestVersion_IsValidForGo(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "0.1.0", "v1", "v1.2", "1234567", "v1.2.3+meta", "v1.2.3-x y"} {
		if _, err := prepare(t.Context(), options{repo: root, version: version}, filepath.Join(t.TempDir(), "src")); err == nil || !strings.Contains(err.Error(), "is no version") {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func TestReplaceable_OnlyRelease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := replaceable(filepath.Join(dir, "none")); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replaceable(dir); err == nil {
		t.Error("a folder with other files would be replaced")
	}
	if err := os.WriteFile(filepath.Join(dir, sumsFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := replaceable(dir); err != nil {
		t.Error(err)
	}
}

// small is a tree with one program and one of each of the files that packages have elsewhere.
func small(t *testing.T) (tree, source) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "acphost")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho acphost\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return tree{platform{"linux", "amd64"}, []file{
		{"share/man/man1/acphost.1", program, 0o644}, {"bin/acphost", program, 0o755},
		{documents + "LICENSE", program, 0o644}, {completions["zsh"], program, 0o644},
	}}, source{version: "v1.2.3-rc.1", time: time.Unix(1_700_000_000, 0).UTC()}
}

func TestPackages_AreReproducible(t *testing.T) {
	t.Parallel()
	tree, src := small(t)
	one, two := t.TempDir(), t.TempDir()
	for _, dir := range []string{one, two} {
		if err := tree.packages(src, dir); err != nil {
			t.Fatal(err)
		}
		if err := tree.archive(src, filepath.Join(dir, "acphost_1.tar.gz")); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"acphost_1.2.3~rc.1_amd64.deb", "acphost-1.2.3~rc.1-1.x86_64.rpm", "acphost_1.tar.gz"} {
		first, err := os.ReadFile(filepath.Join(one, name))
		if err != nil {
			t.Fatal(err)
		}
		second, err := os.ReadFile(filepath.Join(two, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Errorf("%s has other bytes the second time", name)
		}
	}
	listed, err := output(t.Context(), one, nil, "tar", "-tzvf", "acphost_1.tar.gz")
	if err != nil || !regexp.MustCompile(`(?m)^-rwxr-xr-x .* acphost_1/bin/acphost$`).MatchString(listed) {
		t.Errorf("the archive has %v\n%s", err, listed)
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not installed: what a .deb holds cannot be listed")
	}
	listed, err = output(t.Context(), one, nil, "dpkg-deb", "--contents", "acphost_1.2.3~rc.1_amd64.deb")
	for _, want := range []string{
		`-rwxr-xr-x root/root .* \./usr/bin/acphost$`, `-rw-r--r-- root/root .* \./usr/share/man/man1/acphost\.1$`,
		`\./usr/share/doc/acphost/copyright$`, `\./usr/share/zsh/vendor-completions/_acphost$`,
	} {
		if err != nil || !regexp.MustCompile("(?m)"+want).MatchString(listed) {
			t.Errorf("the .deb lacks %s: %v\n%s", want, err, listed)
		}
	}
}

// TestChecksums_AreSigned verifies a signature as docs/install.md describes, and expects that it does not hold for
// other checksums.
func TestChecksums_AreSigned(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	dir, keys := t.TempDir(), t.TempDir()
	key := filepath.Join(keys, "key")
	if _, err := output(t.Context(), keys, nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key, "-C", ""); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "archive"), []byte("bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checksums(t.Context(), dir, key); err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "allowed_signers"), append([]byte("acphost "), public...), 0o600); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	verify := regexp.MustCompile(`(?m)^ssh-keygen -Y verify .*$`).FindString(string(page))
	if verify == "" {
		t.Fatal("docs/install.md does not state how to verify a signature")
	}
	if out, err := output(t.Context(), dir, nil, "sh", "-c", verify+" && sha256sum --check --ignore-missing "+sumsFile); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, sumsFile), []byte("0  archive\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := output(t.Context(), dir, nil, "sh", "-c", verify); err == nil {
		t.Error("the signature holds for other checksums")
	}
}

// TestMakefile_ChoosesVersion checks which version make passes to this program. Without VERSION, a release has a
// version that is before all others, and tags have none, which is an error.
func TestMakefile_ChoosesVersion(t *testing.T) {
	t.Parallel()
	dev := "v0.0.0-dev.g" + git(t, root, "rev-parse", "--short=12", "HEAD")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"release"}, dev},
		{[]string{"release", "VERSION=v1.2.3"}, "v1.2.3"},
		{[]string{"release-tag"}, ""},
		{[]string{"release-tag", "VERSION=v1.2.3"}, "v1.2.3"},
	} {
		cmd := exec.CommandContext(t.Context(), "make", append([]string{"--no-print-directory", "--dry-run", "-C", root}, c.args...)...)
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
			return strings.HasPrefix(v, "VERSION=") || strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=")
		})
		out, err := cmd.CombinedOutput()
		if want := fmt.Sprintf("-version %q", c.want); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("make %q runs %s (%v), want %s", c.args, out, err, want)
		}
	}

	err := run(t.Context(), []string{"tag", "-repo", root, "-version", ""}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), `"" is no version such as v1.2.3 or v1.2.3-rc.1: name one, make release VERSION=v1.2.3`) {
		t.Errorf("without a version: %v", err)
	}
}
