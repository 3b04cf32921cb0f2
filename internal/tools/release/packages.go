package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// packages writes a .deb and an .rpm that install the tree below /usr, into the folder out.
func (t tree) packages(s source, out string) error {
	for kind, packager := range map[string]nfpm.Packager{"deb": deb.Default, "rpm": rpm.DefaultRPM} {
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: "acphost", Arch: t.platform.arch, Platform: "linux", Version: s.version,
			Section: "devel", Priority: "optional", License: "Apache-2.0", Maintainer: "acphost maintainers <maintainers@acphost.invalid>",
			Homepage:    "https://github.com/acphost/acphost",
			Description: "Host for coding agents that speak the Agent Client Protocol\nacphost stands between a coding agent and everything that it can touch: files,\ncommands and permissions.",
			MTime:       s.time,
			Overridables: nfpm.Overridables{
				Contents: t.packaged(s, kind),
				RPM:      nfpm.RPM{BuildHost: "localhost", Summary: "Host for coding agents that speak the Agent Client Protocol"},
			},
		})
		if err := nfpm.PrepareForPackager(info, kind); err != nil {
			return fmt.Errorf("prepare the %s: %w", kind, err)
		}
		var packed bytes.Buffer
		if err := packager.Package(info, &packed); err != nil {
			return fmt.Errorf("make the %s: %w", kind, err)
		}
		name := filepath.Join(out, packager.ConventionalFileName(info))
		if err := os.WriteFile(name, packed.Bytes(), 0o644); err != nil { //nolint:gosec // a release is public
			return err
		}
	}
	return nil
}

// packaged returns the tree below /usr, with the files that a kind of package has elsewhere.
func (t tree) packaged(s source, kind string) files.Contents {
	var contents files.Contents
	add := func(f file, name string) {
		contents = append(contents, &files.Content{
			Source: f.from, Destination: "/usr/" + name, Type: files.TypeFile,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: s.time},
		})
	}
	for _, f := range sorted(t.files) {
		name := f.name
		switch {
		case kind == "deb" && name == completions["zsh"]:
			name = strings.Replace(name, "site-functions", "vendor-completions", 1)
		case kind == "deb" && name == documents+"LICENSE":
			name = documents + "copyright"
		}
		add(f, name)
		if unit := unitName(f.name); unit != "" {
			add(f, unit)
		}
	}
	return contents
}

// unitName returns the path of a systemd unit in a package, below /usr, or "" if the file is not one. A package enables
// no unit.
func unitName(name string) string {
	below, ok := strings.CutPrefix(name, documents+"deploy/systemd/")
	if ok && (strings.HasSuffix(below, ".service") || strings.HasSuffix(below, ".socket")) {
		return "lib/systemd/" + below
	}
	return ""
}
