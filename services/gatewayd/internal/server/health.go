package server

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

const (
	// readyTimeout is how long the supervisor may take to answer one check.
	readyTimeout = 3 * time.Second
	// readyFor is how long the result of a check is cached, so that callers without a token cannot cause many calls to
	// the supervisor.
	readyFor = time.Second
)

// probes answers /healthz and /readyz. Kubelets and load balancers call them by an address, and without a token. So
// they are answered before the Gate, and only report whether this process runs, and whether it can serve.
type probes struct {
	ready func(context.Context) error
	log   *slog.Logger

	mu     sync.Mutex
	at     time.Time // of the last check
	answer error     // of the last check
}

// serve answers a request for a probe, and reports whether it was one.
func (p *probes) serve(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != "/healthz" && r.URL.Path != "/readyz" {
		return false
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		writeText(w, http.StatusMethodNotAllowed, "Method Not Allowed")
	case r.URL.Path == "/readyz" && p.check() != nil:
		writeText(w, http.StatusServiceUnavailable, "the supervisor cannot be reached, or does not serve; the log of gatewayd has the reason")
	default:
		writeText(w, http.StatusOK, "ok")
	}
	return true
}

// check checks whether the supervisor serves, or returns the result of a check that is less than readyFor old. The
// check does not end with the request that started it, because others wait for its result.
func (p *probes) check() error {
	if p.ready == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.at.IsZero() && time.Since(p.at) < readyFor {
		return p.answer
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	before := p.answer
	p.answer = p.ready(ctx)
	p.at = time.Now()
	if p.answer != nil && before == nil {
		p.log.Info("not ready: the supervisor does not answer", "error", p.answer)
	}
	return p.answer
}
