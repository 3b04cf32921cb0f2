package agentspec

import (
	"slices"
	"strings"
	"testing"

	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func FuzzPlainName_ReturnsTypableName(f *testing.F) {
	f.Add("claude")
	f.Add("../a b/ü\x00")
	f.Add("---")
	f.Fuzz(func(t *testing.T, name string) {
		got := PlainName(name)
		if got == "" || len(got) > maxName || strings.ContainsAny(got, "/ \x00\n") || PlainName(got) != got {
			t.Errorf("%q became %q", name, got)
		}
	})
}

func TestResolver_NamesAgents(t *testing.T) {
	for name, c := range map[string]struct {
		configured, asked string
		want              string
	}{
		"by its program":        {"", "", "my-bot"},
		"by the configuration":  {"of the file", "", "of the file"},
		"by the request's name": {"of the file", "asked", "asked"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Resolver{Config: &configv1.Agent{Name: c.configured}}
			got, err := r.Resolve(t.Context(), &supervisorv1.StartAgentRequest{Command: []string{"/opt/my bot"}, Name: c.asked})
			if err != nil || got.GetName() != c.want {
				t.Errorf("got %q (%v), want %q", got.GetName(), err, c.want)
			}
		})
	}
}

func TestEnviron_AddsConfiguredVariables(t *testing.T) {
	r := Resolver{Config: &configv1.Agent{Env: map[string]*configv1.EnvValue{"A": {Value: "configured"}, "B": {Value: "configured"}}}}
	got, err := Environ([]string{"A=inherited", "C=inherited"}, r.Variables([]string{"B=preset"}))
	if want := []string{"C=inherited", "A=configured", "B=preset"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}
