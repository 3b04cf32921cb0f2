package e2e_test

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
	"github.com/acphost/acphost/test/wire"
)

func TestAServerThatIsToldToEndLetsTurnsEnd(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, []string{"--drain", testkit.Timeout().String()})
	agent := s.start(p.demo()).GetId()
	other := s.open(agent).GetSessionId()
	turn := s.prompt(s.open(agent).GetSessionId(), "slow 20 20")
	turn.says("piece 0")
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	// What is new is refused from now on; what has begun ends by itself.
	if !testkit.Poll(func() bool {
		events, err := s.sessions.Prompt(s.ctx, &supervisorv1.PromptRequest{SessionId: other, Prompt: []*supervisorv1.ContentBlock{text("repeat")}})
		for err == nil {
			_, err = events.Recv()
		}
		return status.Code(err) == codes.Unavailable
	}) {
		t.Error("a server that ends begins turns")
	}
	turn.stopped("end_turn")
	if !strings.Contains(turn.said(), "piece 19") {
		t.Errorf("the agent said %q, want it whole", turn.said())
	}
	if got := s.ExpectExit(); got != 0 {
		t.Errorf("the exit status is %d, want 0", got)
	}
	p.expectNobody(t, nil)
}

func TestAServerDoesNotWaitForATurnThatNeverEnds(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, []string{"--drain", "500ms"})
	turn := s.prompt(s.open(s.start(p.demo()).GetId()).GetSessionId(), "hang")
	turn.says("hanging")
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if e := turn.end().GetError(); e.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_STOPPED {
		t.Errorf("the turn ended with %v, want that the agent was stopped", e)
	}
	s.ExpectExit()
	p.expectNobody(t, nil)
}

func TestAServerThatIsKilledLeavesNobody(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	turn := s.prompt(s.open(s.start(p.demo()).GetId()).GetSessionId(), "/run sleep 600")
	turn.until("the terminal is shown", func(e *supervisorv1.Event) bool { return len(e.GetToolCallUpdate().GetContent()) > 0 })
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.ExpectExit()
	p.expectNobody(t, nil)
}

func TestAServerRunsWhereNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *place) []string{
		"a home that is read-only": func(p *place) []string { return []string{"HOME=/proc"} },
		"no home":                  func(p *place) []string { return nil },
		"a home that is not there": func(p *place) []string { return []string{"HOME=/proc/nobody"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			// Only a folder for temporary files; TAG marks the processes instead of HOME.
			env := append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + filepath.Join(p.home, "tmp"), "TAG=" + p.home, "GORACE=atexit_sleep_ms=0"}, change(p)...)
			socket := filepath.Join(p.home, "tmp", "a.sock")
			keeper := wire.Start(t, wire.Options{Name: "keeper", Command: []string{program("acphost"), "serve", "--socket", socket}, Dir: "/", Env: env})
			health := func() error {
				cmd := wire.Command(t, program("acphost"), "health", "--socket", socket)
				cmd.Env = env
				return cmd.Run()
			}
			if !testkit.Poll(func() bool { return health() == nil }) {
				t.Fatalf("it is not healthy: %s", keeper.Stderr())
			}
			s := &server{Process: keeper, place: p, t: t, ctx: wire.Context(t), services: dialAt(t, socket)}
			agent := s.start(&supervisorv1.StartAgentRequest{Command: []string{program("demoagent")}, Cwd: p.work})
			turn := s.prompt(s.open(agent.GetId()).GetSessionId(), "/run echo works")
			turn.stopped("end_turn")
			expectContains(t, "the agent's message", turn.said(), "works")
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

func TestAPolicyCountsWithoutAHomeOnceItsRecordHasAPlace(t *testing.T) {
	t.Parallel()
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err != nil || !filepath.IsAbs(u.HomeDir) {
		t.Skipf("the system does not know this user's home directory: %v", err)
	}
	p := newPlace(t)
	env := []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + filepath.Join(p.home, "tmp"), "TAG=" + p.home, "GORACE=atexit_sleep_ms=0"}
	socket := filepath.Join(p.home, "tmp", "a.sock")
	serve := func(config string) *wire.Process {
		return wire.Start(t, wire.Options{Name: "keeper", Dir: "/", Env: env,
			Command: []string{program("acphost"), "serve", "--socket", socket, "--config", p.file(t, "../config.yaml", config)}})
	}
	keeper := serve("permission: {policy: headless}\n")
	if got := keeper.ExpectExit(); got != 1 {
		t.Errorf("the exit status is %d, want 1", got)
	}
	expectContains(t, "what it says", keeper.Stderr(), "name a file by permission.audit.file")

	keeper = serve("permission: {policy: headless, audit: {file: " + p.path("../audit.jsonl") + "}}\n")
	s := &server{Process: keeper, place: p, t: t, ctx: wire.Context(t), services: dialAt(t, socket)}
	if !testkit.Poll(func() bool { return testkit.Listens(socket) }) {
		t.Fatalf("it does not serve: %s", keeper.Stderr())
	}
	agent := s.start(&supervisorv1.StartAgentRequest{Command: []string{program("demoagent")}, Cwd: p.work})
	turn := s.prompt(s.open(agent.GetId()).GetSessionId(), "/run sudo ls")
	turn.stopped("end_turn")
	expectContains(t, "the agent's message", turn.said(), "become-root")
	if err := keeper.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := keeper.ExpectExit(); got != 0 {
		t.Errorf("the exit status is %d, want 0", got)
	}
}

func TestAServerThatIsTheFirstProcessReapsWhatIsLeftToIt(t *testing.T) {
	t.Parallel()
	unshare := []string{"unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"}
	if err := wire.Command(t, unshare[0], append(unshare[1:], "true")...).Run(); err != nil {
		t.Skipf("this machine lets nobody make a PID namespace: %v", err)
	}
	p := newPlace(t)
	socket, done := filepath.Join(p.home, "tmp", "a.sock"), p.path("done")
	tool, err := filepath.Abs(filepath.Join("..", ".tools", "bin", "grpcurl"))
	if err != nil {
		t.Fatal(err)
	}
	// The callers are inside, as "docker exec" puts them there: one from outside has no process id there, and no verb is
	// taken from it. The agent's terminal leaves an orphan that ends at once.
	script := p.file(t, "../script.sh", `
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
	keeper := wire.Start(t, wire.Options{Name: "keeper", Command: append(unshare, program("acphost"), "serve", "--socket", socket), Dir: p.work, Env: p.env()})
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
	inside.Env = p.env("ACPHOST="+program("acphost"), "GRPCURL="+tool, "AGENT="+program("demoagent"), "SOCKET="+socket, "WORK="+p.work, "DONE="+done)
	if out, err := inside.CombinedOutput(); err != nil {
		t.Fatalf("the play inside: %v\n%s", err, out)
	}
	expectFile(t, done, "all is well\n")
	if got := keeper.ExpectExit(); got != 0 {
		t.Errorf("the exit status is %d, want 0", got)
	}
}

func TestAProbeTellsAServerThatRunsFromOneThatEnded(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	pid := strconv.Itoa(s.PID())
	if !testkit.Poll(func() bool { status, _, _ := p.cli(t, "health", "--pid", pid); return status == 0 }) {
		t.Error("a server that runs is not healthy")
	}
	if status, out, _ := p.cli(t, "ps", "--json"); status != 0 || !strings.Contains(out, pid) {
		t.Errorf("acphost ps has the status %d and lists %s", status, out)
	}
	s.finish()
	if status, out, _ := p.cli(t, "health", "--pid", pid); status != 1 {
		t.Errorf("of a server that has ended health has the status %d and says %s", status, out)
	}
}

func TestAServerThatIsToldToEndWhileItStartsEnds(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil) // it has a socket, and hardly more
	s.finish()
}

func TestAServerHandsOutNothingTwice(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	id := s.open(s.start(p.demo()).GetId()).GetSessionId()
	// A caller that is gone while its turn is told does not keep others from it.
	begun := time.Now()
	for range 20 {
		events, err := s.sessions.Prompt(s.ctx, &supervisorv1.PromptRequest{SessionId: id, Prompt: []*supervisorv1.ContentBlock{text("repeat")}})
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
				t.Fatal(explain(err))
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
	s.finish()
}
