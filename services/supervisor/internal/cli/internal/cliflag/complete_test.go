package cliflag

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/config/preset"
)

func TestBuiltInAgents_MatchPresets(t *testing.T) {
	catalog, err := preset.Load(func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, agent := range catalog.Agents() { // each by its shortest name
		names := append([]string{agent.ID}, agent.Own.Aliases...)
		want = append(want, slices.MinFunc(names, func(a, b string) int { return len(a) - len(b) }))
	}
	got := strings.Split(BuiltInAgents, ", ")
	if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("--help names the agents %q, and the presets are %q", got, want)
	}
	page, err := os.ReadFile("../../../../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if listed := "`" + strings.Join(got, "`, `") + "`"; !strings.Contains(strings.ReplaceAll(string(page), "\n", " "), listed) {
		t.Errorf("docs/configuration.md does not list %s", listed)
	}
}
