//go:build !linux

package host

import (
	"context"
	"log/slog"
	"time"
)

// orphanReaper does nothing on this system, which has no subreapers.
type orphanReaper struct{}

func openOrphanReaper(context.Context, time.Duration, *slog.Logger) *orphanReaper { return nil }

func (*orphanReaper) close() {}
