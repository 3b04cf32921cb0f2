package launch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/sdk/launch"
)

func TestStart_FailureHasReasonAndLeavesNothing(t *testing.T) {
	cert := strings.Repeat("QUJD", 20)
	for name, c := range map[string]struct {
		role  string
		noTLS bool
		want  []string
	}{
		"it prints something else":           {"garbage", false, []string{"not a handler's handshake", "Hello, I am not", "a last word"}},
		"its first line never ends":          {"endless", false, []string{"not a handler's handshake", "xxxx"}},
		"it exits":                           {"exit", false, []string{"exited with status 3 before its handshake: a last word"}},
		"it prints nothing":                  {"silent", false, []string{"no handshake on stdout within 300ms"}},
		"it speaks another core protocol":    {"line:2|1|unix|/x|grpc|" + cert, false, []string{"core protocol"}},
		"it speaks another version":          {"line:1|7|unix|/x|grpc|" + cert, false, []string{`version "7", not 1`}},
		"it speaks netrpc":                   {"line:1|1|unix|/x|netrpc|" + cert, false, []string{"not grpc"}},
		"its certificate is invalid":         {"line:1|1|unix|/x|grpc|" + cert, false, []string{"certificate that cannot be read"}},
		"it cannot do mutual TLS":            {"line:1|1|unix|/x|grpc", false, []string{"cannot do mutual TLS", "no_tls"}},
		"it sends a certificate without TLS": {"line:1|1|unix|/nowhere/x|grpc|" + cert, true, []string{"/nowhere/x"}},
		"its socket has a relative path":     {"line:1|1|unix|x|grpc", true, []string{"not an absolute path"}},
		"it listens on all interfaces":       {"line:1|1|tcp|0.0.0.0:1|grpc", true, []string{"not on this machine's loopback"}},
		"it listens on TCP without TLS":      {"line:1|1|tcp|127.0.0.1:1|grpc", true, []string{"without mutual TLS"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", testkit.ShortDir(t))
			s := spec(c.role)
			s.NoTLS = c.noTLS
			s.HandshakeTimeout = testkit.Timeout()
			if c.role == "silent" {
				s.HandshakeTimeout = 300 * time.Millisecond
			}
			i, err := launch.Start(t.Context(), s)
			if err == nil {
				_ = i.Stop(t.Context())
				t.Fatal("it started")
			}
			for _, want := range append(c.want, "handler test: ") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
			if entries := ls(t, os.TempDir()); len(entries) != 0 {
				t.Errorf("left behind: %v", entries)
			}
		})
	}
}

func TestStart_ReportsProgramThatCannotRun(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		filepath.Join(dir, "missing"): os.ErrNotExist,
		plain:                         os.ErrPermission,
	} {
		_, err := launch.Start(t.Context(), launch.Spec{Name: "x", Command: []string{path}})
		if !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
			t.Errorf("Start(%s) = %v, want %v", path, err, want)
		}
	}
}

func TestStart_RejectsInvalidSpec(t *testing.T) {
	for want, s := range map[string]launch.Spec{
		"neither a command nor an address": {},
		"both a command and an address":    {Command: []string{"/x"}, Address: "unix:///x"},
		"not an absolute path":             {Command: []string{"fsd"}},
		"only with mutual TLS":             {Address: "tcp://127.0.0.1:1"},
		"must be absolute":                 {Address: "unix://x"},
		"neither unix:///PATH nor tcp":     {Address: "http://x"},
		"is not NAME=VALUE":                {Command: []string{"/x"}, Env: []string{"NAME"}},
	} {
		if _, err := launch.Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start(%+v) = %v, want %q", s, err, want)
		}
	}
}

func TestStart_EndsWithContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := launch.Start(ctx, spec("silent"))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want the context's", err)
	}
	if took := time.Since(began); took > testkit.Scale(3*time.Second) {
		t.Errorf("it took %s", took)
	}
}

func TestStart_GrandchildHoldsStderr(t *testing.T) {
	began := time.Now()
	_, err := launch.Start(t.Context(), spec("parent"))
	if err == nil || !strings.Contains(err.Error(), "exited with status 4") {
		t.Fatalf("error = %v", err)
	}
	if took := time.Since(began); took > testkit.Scale(5*time.Second) {
		t.Errorf("it took %s", took)
	}
	_, after, found := strings.Cut(err.Error(), "grandchild ")
	pid, convErr := strconv.Atoi(after)
	if !found || convErr != nil {
		t.Fatalf("error %q does not end in the last line on stderr", err)
	}
	if !testkit.Poll(func() bool { return !alive(pid) }) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Error("the grandchild, of the same process group, lives on")
	}
}
