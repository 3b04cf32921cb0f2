package admin

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/acphost/acphost/internal/panics/httppanics"
)

// Bounds on one connection of a metrics reader.
const (
	metricsTimeout    = 10 * time.Second
	metricsIdle       = 5 * time.Minute
	maxMetricsHeaders = 16 << 10
	maxMetricsStreams = 8
)

// metricsServer serves metrics over HTTP/2 to callers whose certificates have the role for it. They never reach the
// gRPC services: the acceptor delivers their connections here.
type metricsServer struct {
	memListener *memListener
	server      *http.Server
	logger      *slog.Logger
}

func newMetricsServer(handler http.Handler, logger *slog.Logger) *metricsServer {
	// The acceptor has terminated TLS.
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	return &metricsServer{memListener: newMemListener(), logger: logger, server: &http.Server{
		Handler:           httppanics.Handler(logger, handler),
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxMetricsStreams},
		ReadHeaderTimeout: metricsTimeout,
		ReadTimeout:       metricsTimeout,
		WriteTimeout:      metricsTimeout,
		IdleTimeout:       metricsIdle,
		MaxHeaderBytes:    maxMetricsHeaders,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}}
}

// serve returns after stop.
func (s *metricsServer) serve() { _ = s.server.Serve(s.memListener) }

// stop waits half a second for active requests, then closes the server.
func (s *metricsServer) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close()
	}
}
