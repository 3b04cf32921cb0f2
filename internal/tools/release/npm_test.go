package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestNPM_InstallsReproducibly installs the packages with npm, without a network, and runs the demo of the installed
// program.
func TestNPM_InstallsReproducibly(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not installed")
	}
	src, err := prepare(t.Context(), options{repo: root, commit: "HEAD", version: "v0.0.1-test"}, filepath.Join(t.TempDir(), "src"))
	if err != nil {
		t.Fatal(err)
	}
	if err := src.nameLicences(t.Context()); err != nil {
		t.Fatal(err)
	}
	here := platform{runtime.GOOS, runtime.GOARCH}
	built, err := src.buildTree(t.Context(), here, filepath.Join(t.TempDir(), "tree"))
	if err != nil {
		t.Fatal(err)
	}
	licence := filepath.Join(src.dir, "LICENSE")
	shared := []file{{documents + "LICENSE", licence, 0o644}, {documents + "THIRD_PARTY_LICENSES", licence, 0o644}, {"share/man/man1/acphost.1", licence, 0o644}}
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	for _, out := range []string{one, two} {
		if err := src.writeNPM(t.Context(), []tree{built}, shared, filepath.Join(t.TempDir(), "work"), out); err != nil {
			t.Fatal(err)
		}
	}
	system := here.os + "-" + npmArch[here.arch]
	names := []string{"acphost-0.0.1-test.tgz", "acphost-" + system + "-0.0.1-test.tgz", "acphost-client-0.0.1-test.tgz"}
	for _, name := range names {
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
	holds(t, one, names[0], "package.json", "bin/acphost.js", "LICENSE", "README.md")
	holds(t, one, names[1], "package.json", "bin/acphost", "bin/acphost-conformance", "bin/demoagent", "bin/fsd", "bin/gatewayd", "bin/permd", "bin/termd",
		"LICENSE", "README.md", "THIRD_PARTY_LICENSES", "sbom.cdx.json")

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte("{}"), 0o600); err != nil { // else npm takes a folder above
		t.Fatal(err)
	}
	env := []string{"HOME=" + dir, "npm_config_cache=" + filepath.Join(dir, "cache"), "npm_config_offline=true", "npm_config_ignore_scripts=true"}
	npm := func(args ...string) (string, error) { return output(t.Context(), dir, env, "npm", args...) }
	if _, err := npm("install", "--no-audit", "--no-fund", filepath.Join(one, names[0]), filepath.Join(one, names[1])); err != nil {
		t.Fatal(err)
	}
	if out, err := npm("exec", "--", "acphost", "version"); err != nil || !strings.HasPrefix(out, "acphost v0.0.1-test\n") {
		t.Errorf("acphost version: %v\n%s", err, out)
	}
	if out, err := npm("exec", "--", "acphost", "demo"); err != nil {
		t.Errorf("acphost demo: %v\n%s", err, out)
	}
	if err := os.RemoveAll(filepath.Join(dir, "node_modules", "@acphost")); err != nil { // as with --omit=optional
		t.Fatal(err)
	}
	if out, err := npm("exec", "--", "acphost", "version"); err == nil || !strings.Contains(err.Error(), "--omit=optional") {
		t.Errorf("without the programs: %v\n%s", err, out)
	}
}

// holds fails the test unless a package has exactly these files.
func holds(t *testing.T, dir, name string, files ...string) {
	t.Helper()
	listed, err := output(t.Context(), dir, nil, "tar", "-tzf", name)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range strings.Fields(listed) {
		if !strings.HasSuffix(entry, "/") {
			got = append(got, strings.TrimPrefix(entry, "package/"))
		}
	}
	slices.Sort(got)
	slices.Sort(files)
	if !slices.Equal(got, files) {
		t.Errorf("%s holds %v, want %v", name, got, files)
	}
}

func TestNPM_NamesPlatformPackages(t *testing.T) {
	t.Parallel()
	work, out := t.TempDir(), t.TempDir()
	src := source{dir: work, version: "v1.2.3-rc.1", time: time.Unix(1_700_000_000, 0).UTC()}
	p := npmPackage{manifest: src.manifest("@acphost/linux-x64", "Programs"), work: work}
	p.OS, p.CPU = []string{"linux"}, []string{"x64"}
	if err := p.pack(src, out); err != nil {
		t.Fatal(err)
	}
	text, err := output(t.Context(), out, nil, "tar", "-xzOf", "acphost-linux-x64-1.2.3-rc.1.tgz", "package/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if got["name"] != "@acphost/linux-x64" || got["version"] != "1.2.3-rc.1" || got["license"] != "Apache-2.0" || got["scripts"] != nil {
		t.Errorf("package.json is %s", text)
	}
}

const wantFormula = `class Acphost < Formula
  desc "Host for coding agents that speak the Agent Client Protocol"
  homepage "https://github.com/acphost/acphost"
  version "1.2.3"
  license "Apache-2.0"

  on_macos do
    on_intel do
      url "https://github.com/acphost/acphost/releases/download/v1.2.3/acphost_1.2.3_darwin_amd64.tar.gz"
      sha256 "69f92840482dffd8c216256e7bdd43056a70bbbed11455d1b00465bececb4175"
    end
    on_arm do
      url "https://github.com/acphost/acphost/releases/download/v1.2.3/acphost_1.2.3_darwin_arm64.tar.gz"
      sha256 "2b42ce3bed293705db91d71982cdd0ac166fc667348d213b7868fab1f74e1495"
    end
  end

  on_linux do
    on_intel do
      url "https://github.com/acphost/acphost/releases/download/v1.2.3/acphost_1.2.3_linux_amd64.tar.gz"
      sha256 "baf0239e48ff4c47ebac3ba02b5cf1506b69cd5a0c0d0c825a53ba65976fb942"
    end
  end

  def install
    bin.install Dir["bin/*"]
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/acphost"
    zsh_completion.install "share/zsh/site-functions/_acphost"
    fish_completion.install "share/fish/vendor_completions.d/acphost.fish"
    doc.install Dir["share/doc/acphost/*"]
  end

  test do
    assert_match "acphost v#{version}", shell_output("#{bin}/acphost version")
    system bin/"acphost", "demo"
  end
end
`

func TestFormula_NamesArchivesAndChecksums(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	src := source{version: "v1.2.3"}
	platforms := []platform{{"linux", "amd64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}
	for _, p := range platforms {
		if err := os.WriteFile(filepath.Join(out, src.name(p)+".tar.gz"), []byte(p.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := src.writeFormula(out, platforms); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(out, "acphost.rb"))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != wantFormula {
		t.Errorf("the formula is\n%s", got)
	}
	if _, err := exec.LookPath("ruby"); err != nil {
		t.Skip("ruby is not installed: whether the formula is Ruby is not checked")
	}
	if out, err := output(t.Context(), out, nil, "ruby", "-c", "acphost.rb"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
