package handlers

import (
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestNew_CountsReconnectsOfSidecars(t *testing.T) {
	for name, c := range map[string]struct {
		address              string
		restarts, reconnects uint64
	}{
		"a program": {"", 2, 0},
		"a sidecar": {"unix:///run/fsd.sock", 0, 2},
	} {
		got := New(1, &supervisorv1.HandlerStatus{Name: "fs", Address: c.address, Restarts: 2})
		if got.Restarts != c.restarts || got.Reconnects != c.reconnects {
			t.Errorf("%s: %d restarts and %d reconnects, want %d and %d", name, got.Restarts, got.Reconnects, c.restarts, c.reconnects)
		}
	}
}
