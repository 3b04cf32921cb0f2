package handshake_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/handshake"
)

// This test binary is the guard as well, as every program with package guard.
func TestMain(m *testing.M) {
	// Else the race detector makes each guard wait for a second before it ends.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// ask has a shell script be the agent.
func ask(t *testing.T, ctx context.Context, script string) (*handshake.Answer, error) {
	t.Helper()
	return handshake.Query(ctx, agent.Spec{
		Name: "script", Command: []string{"sh", "-c", script}, Guard: []string{testkit.Self(t), "guard"}, StopGrace: 200 * time.Millisecond,
		Stderr: io.Discard,
	}, "1.2.3")
}

const answer = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentInfo":{"name":"x","version":"7"},` +
	`"agentCapabilities":{"loadSession":true},"authMethods":[{"id":"a","name":"A"},` +
	`{"id":"t","type":"terminal","name":"T","description":"D","args":["--login"],"env":{"MODE":"login"}},` +
	`{"id":"u","type":"terminal","env":[{"name":"N","value":"v"}]}]}}`

func TestAsk_ReturnsAgentInfo(t *testing.T) {
	asked := filepath.Join(t.TempDir(), "asked")
	a, err := ask(t, t.Context(), `read -r line; echo "$line" >`+asked+`; echo "a banner"; echo '{"jsonrpc":"2.0","method":"x"}'; echo '`+answer+`'; cat >/dev/null`)
	if err != nil {
		t.Fatal(err)
	}
	if a.Name != "x" || a.Version != "7" || a.Protocol != 1 || string(a.Capabilities) != `{"loadSession":true}` || a.Took <= 0 {
		t.Errorf("the answer is %+v", a)
	}
	if len(a.AuthMethods) != 3 || a.AuthMethods[0].Type != "agent" {
		t.Fatalf("the ways to log in are %+v", a.AuthMethods)
	}
	if m := a.AuthMethods[1]; m.ID != "t" || m.Type != "terminal" || !slices.Equal(m.Args, []string{"--login"}) || !slices.Equal(m.Env, []string{"MODE=login"}) {
		t.Errorf("the second way is %+v", m)
	}
	if m := a.AuthMethods[2]; !slices.Equal(m.Env, []string{"N=v"}) {
		t.Errorf("the third way is %+v", m)
	}
	line, err := os.ReadFile(asked)
	if err != nil {
		t.Fatal(err)
	}
	var request struct {
		Method string
		Params struct {
			ProtocolVersion    int
			ClientCapabilities struct{ Auth struct{ Terminal bool } }
			ClientInfo         struct{ Name, Version string }
		}
	}
	if err := json.Unmarshal(line, &request); err != nil || request.Method != "initialize" || request.Params.ProtocolVersion != 1 ||
		!request.Params.ClientCapabilities.Auth.Terminal || request.Params.ClientInfo.Version != "1.2.3" {
		t.Errorf("the agent was asked %s (%v)", line, err)
	}
}

func TestAsk_RetriesWithVersion2(t *testing.T) {
	asked := filepath.Join(t.TempDir(), "asked")
	const refusal = `{"jsonrpc":"2.0","id":0,"error":{"code":-32022,"message":"Unsupported protocol version"}}`
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2,"info":{"name":"two","version":"9"},"capabilities":{"session":{}},` +
		`"authMethods":[{"type":"agent","methodId":"web","name":"Web"}]}}`
	a, err := ask(t, t.Context(), `read -r line; echo '`+refusal+`'; read -r line; echo "$line" >`+asked+`; echo '`+answer+`'; cat >/dev/null`)
	if err != nil {
		t.Fatal(err)
	}
	if a.Name != "two" || a.Version != "9" || a.Protocol != 2 || string(a.Capabilities) != `{"session":{}}` || len(a.AuthMethods) != 1 || a.AuthMethods[0].ID != "web" {
		t.Errorf("the answer is %+v", a)
	}
	const want = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":2,"capabilities":{"auth":{"terminal":{}}},` +
		`"info":{"name":"acphost","title":"acphost","version":"1.2.3"}}}` + "\n"
	if got, err := os.ReadFile(asked); string(got) != want {
		t.Errorf("it was asked\n%s(%v), want\n%s", got, err, want)
	}
}

func TestAsk_ReportsWhyAgentDoesNotAnswer(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"it ends", `echo "no key" >&2; exit 3`, "it ended before it answered initialize: "},
		{"it is not there", `exec acphost-test-no-such-command`, "command not found"},
		{"it refuses", `read -r l; echo '{"jsonrpc":"2.0","id":0,"error":{"code":-1,"message":"too old"}}'; cat >/dev/null`, "it refused initialize: too old"},
		{"it refuses and says why in the data", `read -r l; echo '{"jsonrpc":"2.0","id":0,"error":{"code":-1,"message":"Internal error","data":{"details":"too old"}}}'; cat >/dev/null`, "it refused initialize: Internal error: too old"},
		{"it closes its output", `exec >&-; cat >/dev/null`, "closed its standard output"},
		{"it writes another thing", `yes | head -n 2000; cat >/dev/null`, "it wrote 1000 lines and no answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if a, err := ask(t, t.Context(), c.script); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the answer is %+v, the error %v; want %q", a, err, c.want)
			}
		})
	}
}

func TestAsk_ErrorHasExit(t *testing.T) {
	_, err := ask(t, t.Context(), `echo "no key" >&2; exit 3`)
	exit, ok := errors.AsType[agent.Exit](err)
	if !ok || exit.Code != 3 || !slices.Contains(exit.Tail, "no key") {
		t.Errorf("the error is %v", err)
	}
}

func TestAsk_SilentAgentTimesOut(t *testing.T) {
	said := filepath.Join(t.TempDir(), "pid")
	if err := syscall.Mkfifo(said, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	var pid []byte
	read := make(chan error, 1)
	go func() { // gives up on the agent as soon as it runs
		data, err := os.ReadFile(said)
		pid = data
		cancel(context.DeadlineExceeded)
		read <- err
	}()
	_, err := ask(t, ctx, `trap "" TERM HUP INT; echo $$ >`+said+`; exec sleep 1000`)
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	if err == nil || !strings.Contains(err.Error(), "did not answer initialize within") || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid))); err == nil {
		t.Errorf("process %s is left", pid)
	}
}
