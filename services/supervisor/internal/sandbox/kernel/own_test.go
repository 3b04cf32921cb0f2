package kernel

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

func TestOwn_KeepsOnlyFilesOfPreset(t *testing.T) {
	home := testkit.ShortDir(t)
	for _, dir := range []string{".agent/sessions", "elsewhere", "run"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{".agent.json", ".agent/settings.json", ".agent/sessions/one"} {
		if err := os.WriteFile(filepath.Join(home, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	state := []string{"~/.agent", "~/.agent.json", "~/.agent.json.*", "${AGENT_HOME:-~/.agent}/sessions/**", "${RUN}/socks/**", "${UNSET}/x/**"}
	o := NewOwn(state, []string{"HOME=" + home, "RUN=" + home + "/run"}).With(filepath.Join(home, "tmp"))
	for file, want := range map[string][2]bool{ // kept, and kept if it is moved
		".agent":                 {true, false},
		".agent.json":            {true, true},
		".agent.json.tmp.1":      {true, true},
		".agent.json/x":          {false, false},
		".agent/sessions":        {true, false},
		".agent/sessions/one":    {true, true},
		".agent/sessions/a/b":    {true, true},
		".agent/sessions.sh":     {false, false},
		".agent/settings.json":   {false, false},
		"run/socks/1.sock":       {true, true},
		"run/other":              {false, false},
		"x/y":                    {false, false},
		"tmp/a":                  {true, true},
		"tmp":                    {true, false},
		"":                       {false, false},
		".agent/sessions/../bad": {true, true}, // the sandbox sends paths without ".."
	} {
		path := home + "/" + file
		if got := [2]bool{o.Keeps(path, false), o.Keeps(path, true)}; got != want {
			t.Errorf("%s: got %v, want %v", file, got, want)
		}
	}
	other := NewOwn(state, []string{"HOME=" + home, "AGENT_HOME=" + home + "/elsewhere"})
	if other.Keeps(home+"/.agent/sessions/one", false) || !other.Keeps(home+"/elsewhere/sessions/one", false) {
		t.Error("the variable of the agent's does not count")
	}
	if (*Own)(nil).Keeps("/x", false) {
		t.Error("nothing known is not nothing of its own")
	}
}

func TestFiles_HasFoldersForUnknownAgents(t *testing.T) {
	for name, tt := range map[string]struct {
		files Files
		want  []string
	}{
		"an unknown agent":      {Files{}, []string{"XDG_CACHE_HOME", "XDG_STATE_HOME"}},
		"an agent with state":   {Files{State: []string{"~/.agent/**"}}, nil},
		"an agent with a cache": {Files{State: []string{"~/.agent/**"}, Caches: []string{"AGENT_CACHE_HOME"}}, []string{"AGENT_CACHE_HOME"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.files.CacheVariables(); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCheckState_RejectsInvalidPatterns(t *testing.T) {
	for pattern, ok := range map[string]bool{
		"~/.agent.json": true, "~/.agent.json.*": true, "~/.agent/**": true, "${AGENT_HOME:-~/.agent}/x/**": true, "${XDG_RUNTIME_DIR}/a/**": true,
		"~/**": false, "/etc/x/": false, "relative": false, "": false, "~/a/../b": false, "~/*/x": false, "~/a*/**": false, "~/[": false, "${X": false,
	} {
		if why := CheckState(pattern); (why == "") != ok {
			t.Errorf("%q: got %q", pattern, why)
		}
	}
}
