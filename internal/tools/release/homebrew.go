package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// formula is Homebrew's formula. An archive has one folder, which Homebrew enters.
var formula = template.Must(template.New("formula").Parse(`class Acphost < Formula
  desc "Host for coding agents that speak the Agent Client Protocol"
  homepage "https://github.com/acphost/acphost"
  version "{{.Version}}"
  license "Apache-2.0"
{{range .Systems}}
  on_{{.Name}} do
{{- range .Archives}}
    on_{{.CPU}} do
      url "https://github.com/acphost/acphost/releases/download/v{{$.Version}}/{{.Name}}"
      sha256 "{{.Sum}}"
    end
{{- end}}
  end
{{end}}
  def install
    bin.install Dir["bin/*"]
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "{{.Bash}}"
    zsh_completion.install "{{.Zsh}}"
    fish_completion.install "{{.Fish}}"
    doc.install Dir["share/doc/acphost/*"]
  end

  test do
    assert_match "acphost v#{version}", shell_output("#{bin}/acphost version")
    system bin/"acphost", "demo"
  end
end
`))

// brewed are Homebrew's names of systems and processors.
var brewed = map[string]string{"linux": "linux", "darwin": "macos", "amd64": "intel", "arm64": "arm"}

// brewArchive is the archive for a processor.
type brewArchive struct{ CPU, Name, Sum string }

// brewSystem is a system, and its archives.
type brewSystem struct {
	Name     string
	Archives []brewArchive
}

// writeFormula writes acphost.rb, which installs the archives in the folder out.
func (s source) writeFormula(out string, platforms []platform) error {
	var systems []brewSystem
	for _, system := range []string{"darwin", "linux"} {
		of := brewSystem{Name: brewed[system]}
		for _, p := range platforms {
			if p.os != system {
				continue
			}
			name := s.name(p) + ".tar.gz"
			text, err := os.ReadFile(filepath.Join(out, name))
			if err != nil {
				return err
			}
			of.Archives = append(of.Archives, brewArchive{brewed[p.arch], name, fmt.Sprintf("%x", sha256.Sum256(text))})
		}
		if len(of.Archives) > 0 {
			systems = append(systems, of)
		}
	}
	var text bytes.Buffer
	if err := formula.Execute(&text, map[string]any{
		"Version": strings.TrimPrefix(s.version, "v"), "Systems": systems,
		"Bash": completions["bash"], "Zsh": completions["zsh"], "Fish": completions["fish"],
	}); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "acphost.rb"), text.Bytes(), 0o644) //nolint:gosec // a release is public
}
