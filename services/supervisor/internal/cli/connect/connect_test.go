package connect

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

// newGateway is a server that does with a WebSocket what a test wants, and the flags by which it is reached.
func newGateway(t *testing.T, serve func(ctx context.Context, ws *websocket.Conn)) (url, token string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Query().Get("agent") != "demo" {
			http.Error(w, "who \x1b[31mare\x07 you?", http.StatusUnauthorized)
			return
		}
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = ws.CloseNow() }()
		serve(r.Context(), ws)
	}))
	t.Cleanup(s.Close)
	token = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return "ws" + strings.TrimPrefix(s.URL, "http") + "/acp", token
}

func TestConnect_SendsLinesAndWaitsForAnswers(t *testing.T) {
	t.Parallel()
	got := make(chan string, 4)
	url, token := newGateway(t, func(ctx context.Context, ws *websocket.Conn) {
		for range 3 {
			_, m, err := ws.Read(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			got <- string(m)
		}
		for _, m := range []string{"{\"method\":\"session/update\",\n\"params\":{}}", `{"id":"b","result":1}`, `{"id":1,"error":{}}`} {
			if err := ws.Write(ctx, websocket.MessageText, []byte(m)); err != nil {
				t.Error(err)
			}
		}
		if _, _, err := ws.Read(ctx); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
			t.Errorf("the connection ended with %v", err)
		}
	})
	in := "{\"id\":1,\"method\":\"initialize\"}\r\n\n \n{\"method\":\"x\"}\n" + `{"id":"b", "method":"y"}`
	status, out, errs := (&commandtest.Call{Stdin: in}).Run(t, New, "connect", url, "--token-file", token, "--agent", "demo")
	if status != 0 || errs != "" {
		t.Errorf("status %d, %q", status, errs)
	}
	if want := "{\"method\":\"session/update\", \"params\":{}}\n{\"id\":\"b\",\"result\":1}\n{\"id\":1,\"error\":{}}\n"; out != want {
		t.Errorf("it wrote %q, want %q", out, want)
	}
	close(got)
	var all []string
	for m := range got {
		all = append(all, m)
	}
	if want := "{\"id\":1,\"method\":\"initialize\"}\r|{\"method\":\"x\"}|{\"id\":\"b\", \"method\":\"y\"}"; strings.Join(all, "|") != want {
		t.Errorf("it sent %q, want %q", all, want)
	}
}

func TestConnect_ReportsDialErrors(t *testing.T) {
	t.Parallel()
	url, token := newGateway(t, func(context.Context, *websocket.Conn) {})
	redirect := httptest.NewServer(http.RedirectHandler("http://127.0.0.1:1/elsewhere", http.StatusTemporaryRedirect))
	t.Cleanup(redirect.Close)
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	missing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(missing.Close)
	odd := filepath.Join(t.TempDir(), "odd")
	if err := os.WriteFile(odd, []byte("a\r\nX-Other: b"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args   []string
		status int
		want   string
	}{
		"nobody":          {[]string{url, "--token-file", token}, 1, "answers 401 Unauthorized: who "},
		"no token":        {[]string{url}, 1, "give --token-file FILE, or $ACPHOST_TOKEN"},
		"an odd token":    {[]string{url, "--token-file", odd}, 1, "characters that no token has"},
		"a redirect":      {[]string{"ws" + redirect.URL[4:], "--token-file", token}, 1, "redirects are not followed"},
		"another path":    {[]string{"ws" + missing.URL[4:], "--token-file", token}, 1, "a gateway of acphost serves /acp"},
		"an unknown CA":   {[]string{"wss" + secure.URL[5:] + "/acp", "--token-file", token}, 1, "/acp: the certificate of the other end is not accepted: certificate signed by unknown authority; the "},
		"no listener":     {[]string{"ws://127.0.0.1:1/acp", "--token-file", token}, 1, "connect to ws://127.0.0.1:1/acp"},
		"plain text":      {[]string{"ws://acp.example.org/acp", "--token-file", token}, 2, "accept it with --plaintext"},
		"a token in it":   {[]string{"wss://token@acp.example.org/acp"}, 2, "the token is in --token-file"},
		"another scheme":  {[]string{"https://acp.example.org/acp"}, 2, "expected a URL such as wss://"},
		"half of a pair":  {[]string{"wss://acp.example.org/acp", "--cert", "x"}, 2, "--cert and --key go together"},
		"a missing CA":    {[]string{"wss://acp.example.org/acp", "--token-file", token, "--ca", odd}, 1, "there is no certificate in"},
		"without any URL": {nil, 2, "one URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, out, errs := (&commandtest.Call{}).Run(t, New, append([]string{"connect"}, c.args...)...)
			if status != c.status || !strings.Contains(errs, c.want) || out != "" {
				t.Errorf("status %d, %q, %q; want %d, %q", status, out, errs, c.status, c.want)
			}
			if strings.ContainsAny(errs, "\x1b\x07") {
				t.Errorf("the gateway's words reach the terminal as they are: %q", errs)
			}
		})
	}
}

// join connects to a gateway with an input that does not end.
func join(ctx context.Context, t *testing.T, url string) error {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	f := flags{agent: "demo"}
	target, err := f.target(url)
	if err != nil {
		t.Fatal(err)
	}
	return connect(ctx, target, http.Header{"Authorization": {"Bearer secret"}}, nil, r, io.Discard)
}

func TestConnect_ReportsCloseReason(t *testing.T) {
	t.Parallel()
	for code, want := range map[websocket.StatusCode]string{
		websocket.StatusPolicyViolation: "has closed it (1008): go ", websocket.StatusGoingAway: "has closed it (1001): go ", websocket.StatusNormalClosure: "",
	} {
		url, _ := newGateway(t, func(_ context.Context, ws *websocket.Conn) { _ = ws.Close(code, "go \x1b]0;away\x07") })
		err := join(t.Context(), t, url)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\x1b\x07")) {
			t.Errorf("%d: error = %v", code, err)
		}
	}
	url, _ := newGateway(t, func(ctx context.Context, ws *websocket.Conn) { _ = ws.Write(ctx, websocket.MessageBinary, []byte("x")) })
	if err := join(t.Context(), t, url); err == nil || !strings.Contains(err.Error(), "does not speak ACP's remote transport") {
		t.Errorf("bytes: error = %v", err)
	}
	url, _ = newGateway(t, func(_ context.Context, ws *websocket.Conn) { _ = ws.CloseNow() })
	if err := join(t.Context(), t, url); err == nil || !strings.Contains(err.Error(), "it broke") {
		t.Errorf("broken: error = %v", err)
	}
}

func TestConnect_EndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	url, _ := newGateway(t, func(gone context.Context, ws *websocket.Conn) {
		cancel() // the connection is open
		_, _, err := ws.Read(gone)
		ended <- err
	})
	if err := join(ctx, t, url); err != nil && !strings.Contains(err.Error(), "canceled") {
		t.Errorf("error = %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("something was sent")
	}
}
