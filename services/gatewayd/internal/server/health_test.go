package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acphost/acphost/services/gatewayd/internal/auth"
	"github.com/acphost/acphost/services/gatewayd/internal/server"
)

// probed returns the status of a request without a token, as a kubelet makes it: by the address of the Pod.
func probed(h http.Handler, method, path string) int {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "10.1.2.3:7480"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestProbes_ReportWhetherGatewayServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		var down error
		looks := 0
		h := server.New(server.Options{
			Gate: auth.New(auth.Options{Tokens: filepath.Join(t.TempDir(), "tokens.json"), Hosts: []string{"127.0.0.1"}, Logger: log}), Logger: log,
			Ready: func(context.Context) error { looks++; return down },
		})
		want := func(method, path string, status int) {
			t.Helper()
			if got := probed(h, method, path); got != status {
				t.Errorf("%s %s: got %d, want %d", method, path, got, status)
			}
		}
		want("GET", "/healthz", http.StatusOK)
		want("HEAD", "/healthz", http.StatusOK)
		want("POST", "/healthz", http.StatusMethodNotAllowed)
		want("GET", "/healthz/more", http.StatusMisdirectedRequest) // the Gate answers all other paths
		if looks != 0 {
			t.Errorf("/healthz asked the supervisor %d times, want 0: a gateway is not restarted because its supervisor is", looks)
		}
		want("GET", "/readyz", http.StatusOK)
		down = errors.New("no connection")
		want("GET", "/readyz", http.StatusOK)
		if looks != 1 {
			t.Errorf("two requests within a second asked the supervisor %d times, want 1", looks)
		}
		time.Sleep(2 * time.Second) // of the bubble
		want("GET", "/readyz", http.StatusServiceUnavailable)
		want("GET", "/healthz", http.StatusOK)
		down = nil
		time.Sleep(2 * time.Second)
		want("GET", "/readyz", http.StatusOK)
	})
}
