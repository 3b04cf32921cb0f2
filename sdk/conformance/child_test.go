package conformance_test

import (
	"encoding/base64"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/sdk/conformance"
)

// childCase runs one case against a shell script in the place of a handler. $LINE is a handshake line that names socket.
func childCase(t *testing.T, script, socket, name string, timeout time.Duration) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "handler.sh")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	suite := conformance.Suite{Timeout: timeout, Program: &conformance.Program{
		Command: []string{file}, Env: []string{"LINE=1|1|unix|" + socket + "|grpc|" + someCertificate()},
	}}
	for _, c := range conformance.ChildCases() {
		if c.Name == "child/"+name {
			return suite.RunCase(t.Context(), c)
		}
	}
	t.Fatalf("there is no case %q", name)
	return nil
}

// someCertificate is one as a handshake has it.
func someCertificate() string {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return base64.StdEncoding.EncodeToString(server.Certificate().Raw)
}

const (
	cookie   = `[ -n "$ACPHOST_HANDLER_COOKIE" ] || exit 2; `
	answers  = `echo "$LINE"; `
	untilEOF = `exec cat >/dev/null`
	forEver  = `exec tail -f /dev/null`
)

func TestChild_CorrectPasses(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"the handshake is all that it prints on stdout", "it ends when its stdin ends", "it ends on SIGTERM",
		"it serves only with the cookie", "it serves only clients with the supervisor's key",
	} {
		if err := childCase(t, cookie+answers+untilEOF, "/nowhere", name, 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChild_DefectFailsItsCase(t *testing.T) {
	t.Parallel()
	open := openServer(t)
	for defect, c := range map[string]struct{ script, fails string }{
		"prints hello first":        {cookie + `echo hello; ` + answers + untilEOF, "the handshake is all that it prints on stdout"},
		"prints hello afterwards":   {cookie + answers + `echo hello; ` + untilEOF, "the handshake is all that it prints on stdout"},
		"prints good-bye":           {cookie + answers + `cat >/dev/null; echo good-bye`, "the handshake is all that it prints on stdout"},
		"has no certificate":        {cookie + `echo "1|1|unix|/nowhere|grpc|"; ` + untilEOF, "the handshake is all that it prints on stdout"},
		"has a broken one":          {cookie + `echo "1|1|unix|/nowhere|grpc|AAAA"; ` + untilEOF, "the handshake is all that it prints on stdout"},
		"speaks another version":    {cookie + `echo "1|2|unix|/nowhere|grpc|"; ` + untilEOF, "it ends when its stdin ends"},
		"dies at once":              {cookie + `exit 1`, "it ends when its stdin ends"},
		"prints nothing":            {cookie + forEver, "it ends when its stdin ends"},
		"never reads its stdin":     {cookie + answers + forEver, "it ends when its stdin ends"},
		"does not hear TERM":        {cookie + `trap '' TERM; ` + answers + forEver, "it ends on SIGTERM"},
		"serves every caller":       {answers + untilEOF, "it serves only with the cookie"},
		"does not check the cookie": {answers + `exit 0`, "it serves only with the cookie"},
		"requires no key":           {cookie + answers + untilEOF, "it serves only clients with the supervisor's key"},
	} {
		t.Run(defect, func(t *testing.T) {
			t.Parallel()
			err := childCase(t, c.script, open, c.fails, 2*time.Second)
			if err == nil || errors.Is(err, conformance.ErrSkipped) {
				t.Errorf("%q: %v", c.fails, err)
			}
		})
	}
}

// openServer accepts calls of every client, without TLS.
func openServer(t *testing.T) string {
	t.Helper()
	dir := testkit.ShortDir(t)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	h := health.NewServer()
	h.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(g, h)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}
