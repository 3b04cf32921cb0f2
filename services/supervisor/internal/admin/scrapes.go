package admin

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/acphost/acphost/internal/panics/httppanics"
)

// Bounds on one connection of who reads metrics.
const (
	scrapeTimeout    = 10 * time.Second
	scrapeIdle       = 5 * time.Minute
	maxScrapeHeaders = 16 << 10
	maxScrapeStreams = 8
)

// scrapes serves metrics over HTTP/2 to those whose certificates have the role for it. They never reach the gRPC services: the
// door leads them here.
type scrapes struct {
	hall   *hall
	server *http.Server
	logger *slog.Logger
}

func newScrapes(handler http.Handler, logger *slog.Logger) *scrapes {
	// TLS has ended at the door.
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	return &scrapes{hall: newHall(), logger: logger, server: &http.Server{
		Handler:           httppanics.Handler(logger, handler),
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxScrapeStreams},
		ReadHeaderTimeout: scrapeTimeout,
		ReadTimeout:       scrapeTimeout,
		WriteTimeout:      scrapeTimeout,
		IdleTimeout:       scrapeIdle,
		MaxHeaderBytes:    maxScrapeHeaders,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}}
}

// serve returns after stop.
func (s *scrapes) serve() { _ = s.server.Serve(s.hall) }

// stop lets those who are reading end, for half a second.
func (s *scrapes) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close()
	}
}
