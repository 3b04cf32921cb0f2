package rest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/gatewayd/internal/auth"
	"github.com/acphost/acphost/services/gatewayd/internal/services"
)

// brokenConn is a connection on which streams of one method panic: when they are opened or, if late is set, when they
// receive their second message.
type brokenConn struct {
	grpc.ClientConnInterface
	method string
	late   bool
}

func (b *brokenConn) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, o ...grpc.CallOption) (grpc.ClientStream, error) {
	if method != b.method {
		return b.ClientConnInterface.NewStream(ctx, d, method, o...)
	}
	if !b.late {
		panic("injected")
	}
	s, err := b.ClientConnInterface.NewStream(ctx, d, method, o...)
	return &brokenStream{ClientStream: s}, err
}

type brokenStream struct {
	grpc.ClientStream
	received int
}

func (b *brokenStream) RecvMsg(m any) error {
	if b.received++; b.received > 1 {
		panic("injected")
	}
	return b.ClientStream.RecvMsg(m)
}

// breaking returns the paths of a gateway whose connection to the rig's supervisor is broken.
func (r *rig) breaking(b *brokenConn) (h *Handler, url string) {
	r.t.Helper()
	b.ClientConnInterface = r.calls.Conn()
	log := slog.New(slog.DiscardHandler)
	calls, err := services.New(b, log)
	if err != nil {
		r.t.Fatal(err)
	}
	h, err = New(calls, log)
	if err != nil {
		r.t.Fatal(err)
	}
	mux := http.NewServeMux()
	h.Register(mux)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mux.ServeHTTP(w, req.WithContext(auth.With(req.Context(), auth.Caller{ID: "t", Role: "operator", Valid: func() bool { return true }})))
	}))
	r.t.Cleanup(func() {
		calls.Close()
		h.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return h, server.URL
}

func TestEvents_PanicEndsOneStream(t *testing.T) {
	r := newRig(t)
	_, url := r.breaking(&brokenConn{method: supervisorv1.SupervisorStateService_WatchEvents_FullMethodName})
	req, err := http.NewRequestWithContext(testkit.Context(t), http.MethodGet, url+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(text), streamFailed) || !strings.Contains(string(text), "internal error") {
		t.Errorf("got %q, %v, want %s with an internal error", text, err, streamFailed)
	}
	if status, body := r.do("GET", "/agents", "/agents", ""); status != http.StatusOK {
		t.Errorf("another request: %d %s", status, body)
	}
}

func TestLogin_PanicEndsOneLogin(t *testing.T) {
	r := newRig(t)
	h, url := r.breaking(&brokenConn{method: supervisorv1.AgentService_Authenticate_FullMethodName, late: true})
	ended := make(chan completed, 1)
	h.mu.Lock()
	h.watchers[ended] = struct{}{}
	h.mu.Unlock()
	req, err := http.NewRequestWithContext(testkit.Context(t), http.MethodPost, url+"/agents/a1/login", strings.NewReader(`{"methodId":"web"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	select {
	case c := <-ended:
		if c.AgentID != "a1" || !strings.Contains(c.Error, "internal error") {
			t.Errorf("the login ended with %+v, want an internal error", c)
		}
	case <-testkit.After():
		t.Fatal("clients are not notified that the login has ended")
	}
}
