package cliflag_test

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/sandbox"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/cliflag"
	"github.com/acphost/acphost/services/supervisor/internal/config"
)

func TestSandboxed_DescribesMode(t *testing.T) {
	for mode, want := range map[string]string{"": "", "off": "", "observe": "in the sandbox (observe)", "enforce": "in the sandbox (enforce)"} {
		in, missing := cliflag.Sandboxed(&config.Config{Proto: &configv1.Config{Sandbox: &configv1.Sandbox{Mode: mode}}})
		if want != "" && sandbox.Supported() != nil {
			if in != "" || !strings.HasPrefix(missing, "no sandbox ("+mode+"): ") {
				t.Errorf("%q: got %q, %q", mode, in, missing)
			}
			continue
		}
		if in != want || missing != "" {
			t.Errorf("%q: got %q, %q", mode, in, missing)
		}
	}
}
