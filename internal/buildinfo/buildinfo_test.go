package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestVersion_PrefersLinkerThenModuleThenCommit(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{
			{Key: "vcs.revision", Value: commit}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: modified},
		}
	}
	for name, c := range map[string]struct {
		linker, module string
		settings       []debug.BuildSetting
		want           string
	}{
		"a release":                 {"v1.2.3", "(devel)", vcs("false"), "v1.2.3"},
		"go install":                {"", "v1.2.3", nil, "v1.2.3"},
		"go build":                  {"", "(devel)", vcs("false"), "devel+0123456789ab"},
		"go build, files changed":   {"", "(devel)", vcs("true"), "devel+0123456789ab.changed"},
		"built without information": {"", "", nil, "devel"},
	} {
		b := read(c.linker, &debug.BuildInfo{Main: debug.Module{Version: c.module}, Settings: c.settings})
		if b.Version != c.want || (b.Commit != "") != (c.settings != nil) {
			t.Errorf("%s: %+v, want the version %q", name, b, c.want)
		}
	}
	got := read("v1.2.3", &debug.BuildInfo{Settings: vcs("true")}).Text("fsd", [2]string{"plugins", "protocol 1"}, [2]string{"none", ""})
	want := "fsd v1.2.3\ncommit      " + commit + " of 2026-01-02T03:04:05Z, with changes\n" +
		"built with  " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\nplugins     protocol 1\n"
	if got != want {
		t.Errorf("text is %q, want %q", got, want)
	}
}
