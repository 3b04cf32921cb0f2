package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/config"
)

func TestDecisions_ReportsWhyUnrecorded(t *testing.T) {
	for _, c := range []struct {
		name, config, mode string
		routes             map[string]string
		want               string
	}{
		{"it is watched", "{}", ModeObserve, nil, "run --observe"},
		{"the client decides", "{}", ModeRun, map[string]string{methodPermission: "front"}, "--permission=front"},
		{"it is turned off", "permission: {policy: workspace, audit: {disabled: true}}", ModeRun, nil, "permission.audit.disabled"},
		{"there is no place", "permission: {policy: workspace}", ModeRun, nil, "permission.audit.file"},
		{"the place is no good", "permission: {policy: workspace, audit: {file: /proc/none}}", ModeRun, nil, "could not be opened"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(c.config+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Load(file, func(string) string { return "" })
			if err != nil {
				t.Fatal(err)
			}
			h := &host{opts: Options{Config: cfg, Mode: c.mode}, config: cfg.Effective(), handlers: &handlers{routes: c.routes}}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var told []*supervisorv1.WatchDecisionsResponse
			err = h.WatchDecisions(ctx, &supervisorv1.WatchDecisionsRequest{Latest: 10}, func(r *supervisorv1.WatchDecisionsResponse) error {
				told = append(told, r)
				cancel() // there is nothing more to come
				return nil
			})
			if !errors.Is(err, context.Canceled) || len(told) != 1 || len(told[0].GetDecisions()) != 0 || !strings.Contains(told[0].GetNote(), c.want) {
				t.Errorf("told was %v (%v), want %q", told, err, c.want)
			}
			_, err = h.ReplayPolicy(t.Context(), &supervisorv1.ReplayPolicyRequest{Policy: []byte("version: 1\n")})
			if f, ok := errors.AsType[*fault.Error](err); !ok || f.Class != fault.Precondition || !strings.Contains(f.Message, c.want) {
				t.Errorf("a replay: %v", err)
			}
		})
	}
}
