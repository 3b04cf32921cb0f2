// Package buildinfo provides the version and build of a program, as "--version" prints them. It reads the data that the
// Go command stores in the program. It must not know protocols.
package buildinfo

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"
)

// Build describes how this program was built. Scripts use the JSON names, so they must not change.
type Build struct {
	Version string `json:"version"`
	// Commit has 40 hexadecimal digits, and Time is its time in RFC 3339. Both are empty if the program was built
	// outside of a repository, for example by "go install MODULE@VERSION".
	Commit string `json:"commit,omitempty"`
	Time   string `json:"commit_time,omitempty"`
	// Changed reports whether files differed from those of the commit.
	Changed  bool   `json:"changed,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"` // GOOS/GOARCH
}

// Read returns how this program was built. version is the version that the linker set; if it is empty, the version is
// that of the program's module, else "devel" with the commit.
func Read(version string) Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return read(version, info)
}

func read(version string, info *debug.BuildInfo) Build {
	b := Build{Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Changed = s.Value == "true"
		}
	}
	devel := "devel"
	if b.Commit != "" {
		devel += "+" + b.Commit[:min(12, len(b.Commit))]
	}
	if b.Changed {
		devel += ".changed"
	}
	b.Version = cmp.Or(version, strings.TrimPrefix(info.Main.Version, "(devel)"), devel)
	return b
}

// Text returns the output of "--version" for a program: its name and version on the first line, then a line for each
// known fact. more adds facts: a name and a value each.
func (b Build) Text(name string, more ...[2]string) string {
	commit := b.Commit
	if b.Time != "" {
		commit += " of " + b.Time
	}
	if b.Changed {
		commit += ", with changes"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s\n", name, b.Version)
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, fact := range append([][2]string{{"commit", commit}, {"built with", b.Go + " " + b.Platform}}, more...) {
		if fact[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", fact[0], fact[1])
		}
	}
	_ = w.Flush() // a write to memory does not fail
	return text.String()
}
