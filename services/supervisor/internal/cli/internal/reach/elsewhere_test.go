package reach_test

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/reach"
)

func TestGateway_ReportsRefusedCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.EnableHTTP2, server.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	where := server.Listener.Addr().String()
	c, err := client.DialGateway(where, &tls.Config{}, "token")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_, err = reach.At(t.Context(), where, c)
	if err == nil || !strings.HasPrefix(err.Error(), "connect to "+where+": the certificate of the other end is not accepted: ") {
		t.Errorf("error = %v, want that the certificate is not accepted", err)
	}
}

// A supervisor that refuses its caller answers.
func TestGateway_ReportsRefusedCaller(t *testing.T) {
	for status, want := range map[string]string{
		"7":  " refuses this caller: this caller may do nothing here",
		"16": " does not know who calls: ",
		"14": "no supervisor answers at ",
	} {
		t.Run(status, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/grpc")
				w.Header().Set("Grpc-Status", status)
				w.Header().Set("Grpc-Message", "this caller may do nothing here")
			}))
			server.EnableHTTP2 = true
			server.StartTLS()
			t.Cleanup(server.Close)
			where := server.Listener.Addr().String()
			c, err := client.DialGateway(where, server.Client().Transport.(*http.Transport).TLSClientConfig, "token")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			_, err = reach.At(t.Context(), where, c)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error = %v, want %q", err, want)
			}
		})
	}
}

// TestOrder_PrefersOwnRuntimeFolder has a supervisor in the runtime folder of this environment, and another one in the
// folder of another environment, in which commands look too.
func TestOrder_PrefersOwnRuntimeFolder(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers bool
		begin   func(t *testing.T, lookup func(string) string, dir string) // the other supervisor
	}{
		{"other does not answer", false, func(t *testing.T, _ func(string) string, dir string) {
			folder := filepath.Join(dir, "acphost")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			l, err := net.Listen("unix", filepath.Join(folder, "4712-frozen.sock")) // it accepts, and sends nothing, like a stopped process
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
		}},
		{"other answers", true, func(t *testing.T, lookup func(string) string, _ string) { begin(t, lookup, 4712) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			own, other := testkit.ShortDir(t), testkit.ShortDir(t)
			in := func(dir string) func(string) string {
				return func(name string) string {
					return map[string]string{"XDG_RUNTIME_DIR": dir, "TMPDIR": dir, "XDG_CONFIG_HOME": dir}[name]
				}
			}
			begin(t, in(own), 4711)
			c.begin(t, in(other), other)
			stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
			if err != nil {
				t.Fatal(err)
			}
			defer stderr.Close()
			call := &command.Call{Stderr: stderr, Env: in(own), Terminal: func(*os.File) bool { return false }, Sockets: func(func(string) string) []string {
				return []string{filepath.Join(own, "acphost"), filepath.Join(other, "acphost")}
			}}
			cmd := &cobra.Command{}
			cmd.SetContext(t.Context())
			var flags reach.Flags
			ordered := 0
			err = reach.Perform(cmd, call, &flags, "supervisor", nil, func(_ context.Context, at *reach.Supervisor) error {
				ordered = at.PID
				return nil
			})
			text, _ := os.ReadFile(stderr.Name())
			if err != nil || ordered != 4711 || call.Status != 0 || len(text) > 0 {
				t.Errorf("Order: %v, supervisor %d, status %d, stderr %q", err, ordered, call.Status, text)
			}
			if one, err := reach.One(t.Context(), call, &flags); err != nil || one.PID != 4711 {
				t.Errorf("One: supervisor %d, %v", one.PID, err)
			}
			if c.answers {
				wantOwnTerminal(t, cmd, call, &flags)
			}
		})
	}
}

// wantOwnTerminal has two supervisors with a terminal of the same id.
func wantOwnTerminal(t *testing.T, cmd *cobra.Command, call *command.Call, flags *reach.Flags) {
	t.Helper()
	all, closeAll, err := reach.All(cmd, call, flags)
	defer closeAll()
	if err != nil || len(all) != 2 {
		t.Fatalf("All: %d supervisors, %v, want 2", len(all), err)
	}
	list := reach.List(t.Context(), call, all, "terminals", func(ctx context.Context, at *reach.Supervisor) ([]*supervisorv1.Terminal, error) {
		res, err := at.State.ListTerminals(ctx, &supervisorv1.ListTerminalsRequest{})
		return res.GetTerminals(), err
	})
	has := func(t reach.Item[*supervisorv1.Terminal]) bool { return t.Of.GetTerminalId() == "acphost-1f" }
	if meant := reach.SelectItems(list, has, has); len(meant) != 1 || meant[0].At.PID != 4711 {
		t.Errorf("MeantOf: %d terminals of %d, want that of supervisor 4711", len(meant), len(list))
	}
}

func begin(t *testing.T, lookup func(string) string, pid int64) {
	t.Helper()
	server, err := admin.Start(admin.Options{State: &commandtest.Supervisor{PID: pid}, Env: lookup})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
}
