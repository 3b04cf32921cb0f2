package policytool_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
)

func TestNetwork_WarnsOfIneffectiveRules(t *testing.T) {
	for text, want := range map[string]string{
		"{}\n":                       "sandbox.mode is off",
		"sandbox: {mode: enforce}\n": "only deny rules count",
		"sandbox: {mode: observe, network: open}\n":  "only deny rules count",
		"sandbox: {mode: enforce, network: none}\n":  "no network",
		"sandbox: {mode: enforce, network: proxy}\n": "",
	} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(file, func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		if got := policytool.NetworkNote(c); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]bool{
		"version: 1\nrules: [{id: a, effect: allow, host: [a.example]}]\n":                  true,
		"version: 1\nrules: [{id: a, effect: allow, host: [a.example], tests: {match: 7}}]": true,
		"version: 1\nrules: [{id: a, effect: allow, path: [\"/w/**\"]}]\n":                  false,
		"rules: [": false,
	} {
		if got := policytool.NamesMachines(&permissionv1.PolicyFile{Name: "p.yaml", Content: []byte(text)}); got != want {
			t.Errorf("%q: got %t", text, got)
		}
	}
}
