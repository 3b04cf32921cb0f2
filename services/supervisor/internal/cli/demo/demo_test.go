package demo

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/demo"
)

func TestDemo_PassesTerminalAndColourOptions(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  []string
		call  commandtest.Call
		color bool
	}{
		{"on a terminal", nil, commandtest.Call{Terminal: true}, true},
		{"into a file", nil, commandtest.Call{}, false},
		{"not wanted", []string{"--no-color"}, commandtest.Call{Terminal: true}, false},
		{"not wanted anywhere", nil, commandtest.Call{Terminal: true, Env: map[string]string{"NO_COLOR": "1"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var played *demo.Options
			play := func(_ context.Context, o demo.Options) int { played = &o; return 3 }
			status, _, stderr := c.call.Run(t, func(call *command.Call) *cobra.Command { return New(call, play) }, append([]string{"demo", "--dir", "/d"}, c.args...)...)
			if status != 3 || played == nil {
				t.Fatalf("status %d: %s", status, stderr)
			}
			if o := played; o.Dir != "/d" || o.Color != c.color || !filepath.IsAbs(o.Exe) || o.Stdout == nil {
				t.Errorf("options are %+v", o)
			}
		})
	}
}
