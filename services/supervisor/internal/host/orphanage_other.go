//go:build !linux

package host

import (
	"context"
	"log/slog"
	"time"
)

// orphanage needs subreapers: here nobody is adopted.
type orphanage struct{}

func openOrphanage(context.Context, time.Duration, *slog.Logger) *orphanage { return nil }

func (*orphanage) close() {}
