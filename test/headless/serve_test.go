package headless_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestServe_ShutdownWaitsForTurns(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, []string{"--drain", testkit.Timeout().String()})
	agent := s.Start(p.Demo()).GetId()
	other := s.Open(agent).GetSessionId()
	turn := s.Prompt(s.Open(agent).GetSessionId(), "slow 20 20")
	turn.Says("piece 0")
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// New requests are rejected from now on; active ones run to their end.
	if !testkit.Poll(func() bool {
		events, err := s.Sessions.Prompt(s.Ctx, &supervisorv1.PromptRequest{SessionId: other, Prompt: []*supervisorv1.ContentBlock{e2e.Text("repeat")}})
		for err == nil {
			_, err = events.Recv()
		}
		return status.Code(err) == codes.Unavailable
	}) {
		t.Error("a server that ends begins turns")
	}
	turn.Stopped("end_turn")
	if !strings.Contains(turn.Said(), "piece 19") {
		t.Errorf("the agent sent %q, want it whole", turn.Said())
	}
	if got := s.ExpectExit(); got != 0 {
		t.Errorf("the exit status is %d, want 0", got)
	}
	p.ExpectNobody(t, nil)
}

func TestServe_ShutdownTimesOut(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, []string{"--drain", "500ms"})
	turn := s.Prompt(s.Open(s.Start(p.Demo()).GetId()).GetSessionId(), "hang")
	turn.Says("hanging")
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if e := turn.End().GetError(); e.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_STOPPED {
		t.Errorf("the turn ended with %v, want that the agent was stopped", e)
	}
	s.ExpectExit()
	p.ExpectNobody(t, nil)
}

func TestServe_KilledLeavesNoProcess(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	turn := s.Prompt(s.Open(s.Start(p.Demo()).GetId()).GetSessionId(), "/run sleep 600")
	turn.Until("the terminal is shown", func(e *supervisorv1.Event) bool { return len(e.GetToolCallUpdate().GetContent()) > 0 })
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.ExpectExit()
	p.ExpectNobody(t, nil)
}

func TestServe_ReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *e2e.Place) []string{
		"a home that is read-only": func(p *e2e.Place) []string { return []string{"HOME=/proc"} },
		"no home":                  func(p *e2e.Place) []string { return nil },
		"a home that is not there": func(p *e2e.Place) []string { return []string{"HOME=/proc/nobody"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			// Only a folder for temporary files; TAG marks the processes instead of HOME.
			env := append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + filepath.Join(p.Home, "tmp"), "TAG=" + p.Home, "GORACE=atexit_sleep_ms=0"}, change(p)...)
			socket := filepath.Join(p.Home, "tmp", "a.sock")
			keeper := wire.Start(t, wire.Options{Name: "keeper", Command: []string{e2e.Program("acphost"), "serve", "--socket", socket}, Dir: "/", Env: env})
			health := func() error {
				cmd := wire.Command(t, e2e.Program("acphost"), "health", "--socket", socket)
				cmd.Env = env
				return cmd.Run()
			}
			if !testkit.Poll(func() bool { return health() == nil }) {
				t.Fatalf("it is not healthy: %s", keeper.Stderr())
			}
			s := &e2e.Server{Process: keeper, Place: p, T: t, Ctx: wire.Context(t), Services: e2e.DialAt(t, socket)}
			agent := s.Start(&supervisorv1.StartAgentRequest{Command: []string{e2e.Program("demoagent")}, Cwd: p.Work})
			turn := s.Prompt(s.Open(agent.GetId()).GetSessionId(), "/run echo works")
			turn.Stopped("end_turn")
			e2e.ExpectContains(t, "the agent's message", turn.Said(), "works")
			if err := keeper.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if got := keeper.ExpectExit(); got != 0 {
				t.Errorf("the exit status is %d, want 0", got)
			}
			if health() == nil {
				t.Error("a server that has ended is healthy")
			}
		})
	}
}

func TestServe_PolicyWithoutHome(t *testing.T) {
	t.Parallel()
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err != nil || !filepath.IsAbs(u.HomeDir) {
		t.Skipf("the system does not know this user's home directory: %v", err)
	}
	p := e2e.NewPlace(t)
	env := []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + filepath.Join(p.Home, "tmp"), "TAG=" + p.Home, "GORACE=atexit_sleep_ms=0"}
	socket := filepath.Join(p.Home, "tmp", "a.sock")
	serve := func(config string) *wire.Process {
		return wire.Start(t, wire.Options{Name: "keeper", Dir: "/", Env: env,
			Command: []string{e2e.Program("acphost"), "serve", "--socket", socket, "--config", p.File(t, "../config.yaml", config)}})
	}
	keeper := serve("permission: {policy: headless}\n")
	if got := keeper.ExpectExit(); got != 1 {
		t.Errorf("the exit status is %d, want 1", got)
	}
	e2e.ExpectContains(t, "the log", keeper.Stderr(), "name a file by permission.audit.file")

	keeper = serve("permission: {policy: headless, audit: {file: " + p.Path("../audit.jsonl") + "}}\n")
	s := &e2e.Server{Process: keeper, Place: p, T: t, Ctx: wire.Context(t), Services: e2e.DialAt(t, socket)}
	if !testkit.Poll(func() bool { return testkit.Listens(socket) }) {
		t.Fatalf("it does not serve: %s", keeper.Stderr())
	}
	agent := s.Start(&supervisorv1.StartAgentRequest{Command: []string{e2e.Program("demoagent")}, Cwd: p.Work})
	turn := s.Prompt(s.Open(agent.GetId()).GetSessionId(), "/run sudo ls")
	turn.Stopped("end_turn")
	e2e.ExpectContains(t, "the agent's message", turn.Said(), "become-root")
	if err := keeper.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := keeper.ExpectExit(); got != 0 {
		t.Errorf("the exit status is %d, want 0", got)
	}
}

func TestServe_ReapsAsPID1(t *testing.T) {
	t.Parallel()
	unshare := []string{"unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"}
	if err := wire.Command(t, unshare[0], append(unshare[1:], "true")...).Run(); err != nil {
		t.Skipf("this machine permits no PID namespace: %v", err)
	}
	p := e2e.NewPlace(t)
	socket, done := filepath.Join(p.Home, "tmp", "a.sock"), p.Path("done")
	tool, err := filepath.Abs(filepath.Join("..", ".tools", "bin", "grpcurl"))
	if err != nil {
		t.Fatal(err)
	}
	// The callers are inside, as "docker exec" puts them there: one from outside has no process id there, and no verb is
	// taken from it. The agent's terminal leaves an orphan that ends at once.
	script := p.File(t, "../script.sh", `
set -e
for i in $(seq 1 500); do "$ACPHOST" health --socket "$SOCKET" && break; sleep 0.02; done
control=$("$GRPCURL" -plaintext -max-time 30 -unix "$SOCKET" acphost.supervisor.v1.SupervisorStateService/GetStatus | sed -n 's/.*"controlSocket": "\([^"]*\)".*/unix:\1/p')
call() { "$GRPCURL" -plaintext -max-time 30 -d "$2" "$control" "acphost.supervisor.v1.$1"; }
agent=$(call AgentService/StartAgent '{"command": ["'"$AGENT"'"], "cwd": "/"}' | sed -n 's/^ *"id": "\(demoagent[^"]*\)".*/\1/p' | head -1)
session=$(call SessionService/NewSession '{"agentId": "'"$agent"'", "cwd": "'"$WORK"'"}' | sed -n 's/.*"sessionId": "\([^"]*\)".*/\1/p' | head -1)
call SessionService/Prompt '{"sessionId": "'"$session"'", "prompt": [{"text": {"text": "/run (setsid sh -c \"sleep 0.05\" &) ; echo played"}}]}' | grep -q 'exit 0: played'
call AgentService/StopAgent '{"agentId": "'"$agent"'"}' >/dev/null
zombies() { for f in /proc/[0-9]*/stat; do read -r pid name state rest < "$f" 2>/dev/null && [ "$state" = Z ] && echo "$pid $name"; done; true; }
for i in $(seq 1 1500); do [ -z "$(zombies)" ] && break; sleep 0.02; done
[ -z "$(zombies)" ] || { echo "zombies: $(zombies)"; exit 1; }
echo all is well > "$DONE"
kill -TERM 1
`)
	keeper := wire.Start(t, wire.Options{Name: "keeper", Command: append(unshare, e2e.Program("acphost"), "serve", "--socket", socket), Dir: p.Work, Env: p.Env()})
	first := 0
	if !testkit.Poll(func() bool {
		below, err := proc.Descendants(keeper.PID())
		for _, pid := range below {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may be gone by now
			if regexp.MustCompile(`(?m)^NSpid:.*\t1$`).Match(status) {
				first = pid
			}
		}
		return err == nil && first > 0
	}) {
		t.Fatal("there is no first process")
	}
	inside := wire.Command(t, "nsenter", "--target", strconv.Itoa(first), "--user", "--preserve-credentials", "--pid", "--mount", "sh", script)
	inside.Env = p.Env("ACPHOST="+e2e.Program("acphost"), "GRPCURL="+tool, "AGENT="+e2e.Program("demoagent"), "SOCKET="+socket, "WORK="+p.Work, "DONE="+done)
	if out, err := inside.CombinedOutput(); err != nil {
		t.Fatalf("the play inside: %v\n%s", err, out)
	}
	e2e.ExpectFile(t, done, "all is well\n")
	if got := keeper.ExpectExit(); got != 0 {
		t.Errorf("the exit status is %d, want 0", got)
	}
}

func TestHealth_RunningAndEnded(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	pid := strconv.Itoa(s.PID())
	if !testkit.Poll(func() bool { status, _, _ := p.Cli(t, "health", "--pid", pid); return status == 0 }) {
		t.Error("a server that runs is not healthy")
	}
	if status, out, _ := p.Cli(t, "ps", "--json"); status != 0 || !strings.Contains(out, pid) {
		t.Errorf("acphost ps has the status %d and lists %s", status, out)
	}
	s.Finish()
	if status, out, _ := p.Cli(t, "health", "--pid", pid); status != 1 {
		t.Errorf("of a server that has ended health returns the status %d and %s", status, out)
	}
}

func TestServe_ShutdownDuringStart(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil) // it has a socket, and hardly more
	s.Finish()
}

func TestPrompt_ReportsTurnEndOnce(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	id := s.Open(s.Start(p.Demo()).GetId()).GetSessionId()
	// A caller that has disconnected during its turn does not block the events of other callers.
	begun := time.Now()
	for range 20 {
		events, err := s.Sessions.Prompt(s.Ctx, &supervisorv1.PromptRequest{SessionId: id, Prompt: []*supervisorv1.ContentBlock{e2e.Text("repeat")}})
		if err != nil {
			t.Fatal(err)
		}
		ends := 0
		for {
			m, err := events.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(e2e.Explain(err))
			}
			if m.GetEvent().GetTurnEnded() != nil {
				ends++
			}
		}
		if ends != 1 {
			t.Fatalf("a turn ended %d times", ends)
		}
	}
	if took := time.Since(begun); took > testkit.Scale(10*time.Second) {
		t.Errorf("20 turns took %s", took)
	}
	s.Finish()
}
