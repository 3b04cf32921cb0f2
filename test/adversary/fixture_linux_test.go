package adversary

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// fixture is a supervisor with the test at both ends: it is the editor (the embedded process), and says what the agent, an
// attacker, writes and does.
type fixture struct {
	*wire.Process
	*wire.Place
	t     testing.TB
	agent *wire.Peer
	hand  *hand // in the agent's process
	// session is the one that commands are run in; empty: s1.
	session string
}

// needsConfinement skips a test of what only a kernel can do that scopes signals.
func needsConfinement(t *testing.T) {
	t.Helper()
	if err := proc.ConfineSupported(); err != nil {
		t.Skipf("this kernel has no Landlock that scopes signals: %v", err)
	}
}

// openFixture starts "acphost run FLAGS -- the attacker", and has it past initialize and session/new; the session is s1.
func openFixture(t testing.TB, flags func(*wire.Place) []string, env ...string) *fixture {
	t.Helper()
	return openFixtureAt(t, wire.NewPlace(t), flags, env...)
}

func openFixtureAt(t testing.TB, p *wire.Place, flags func(*wire.Place) []string, env ...string) *fixture {
	t.Helper()
	return openFixtureIn(t, nil, p, flags, env...)
}

// openFixtureIn is openFixtureAt with a command that executes acphost.
func openFixtureIn(t testing.TB, around []string, p *wire.Place, flags func(*wire.Place) []string, env ...string) *fixture {
	t.Helper()
	puppet, hand := p.NewStage(t), p.NewStage(t)
	command := append(slices.Clone(around), program("acphost"), "run")
	if flags != nil {
		command = append(command, flags(p)...)
	}
	command = append(command, "--", program("attacker"), "agent", puppet.Path, hand.Path)
	s := &fixture{Place: p, t: t, Process: wire.Start(t, wire.Options{Name: "editor", Command: command, Dir: p.Work, Env: p.Env(env...)})}
	call := s.Send("initialize", json.RawMessage(`{"protocolVersion":1,"clientCapabilities":{}}`))
	s.raise(puppet, hand)
	if s.agent == nil {
		t.Fatal("acphost ended without its agent")
	}
	s.agent.Reply(s.agent.Expect("initialize"), map[string]any{"protocolVersion": 1, "agentInfo": map[string]any{"name": "attacker", "version": "0.1"}})
	call.Result(nil)
	opened := s.Send("session/new", map[string]any{"cwd": s.Work, "mcpServers": []any{}})
	s.agent.Reply(s.agent.Expect("session/new"), map[string]any{"sessionId": "s1"})
	opened.Result(nil)
	return s
}

// raise waits for the attacker that is the agent; where acphost ends first, there is none.
func (s *fixture) raise(puppet, side *wire.Stage) {
	s.t.Helper()
	conn, in, _ := puppet.AcceptOr(s.t, s.Done())
	if conn == nil {
		return
	}
	s.agent = wire.NewPeer(s.t, "agent", conn, in)
	s.hand = s.awaitHand("the agent", side)
}

// policy returns flags that name a rule file, and what else stands in the configuration.
func policy(rules, config string) func(*wire.Place) []string {
	return func(p *wire.Place) []string {
		file := filepath.Join(filepath.Dir(p.Work), "config", "policy.yaml")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			panic(err)
		}
		if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
			panic(err)
		}
		return configured(config + "\npermission: {policy: policy.yaml}\n")(p)
	}
}

// configured returns flags that name a configuration.
func configured(config string) func(*wire.Place) []string {
	return func(p *wire.Place) []string {
		file := filepath.Join(filepath.Dir(p.Work), "config", "config.yaml")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			panic(err)
		}
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			panic(err)
		}
		return []string{"--config", file}
	}
}

// askWrites is a policy under which an agent may do everything but write files.
const askWrites = `
version: 1
rules:
  - {id: run, effect: allow, on: [terminal.create]}
  - {id: read, effect: allow, on: [fs.read, fs.list], path: ["/**"]}
  - {id: write, effect: ask, on: [fs.write], path: ["/**"]}
`

// params adds the session to a request's params.
func params(pairs ...any) map[string]any {
	p := map[string]any{"sessionId": "s1"}
	for i := 0; i < len(pairs); i += 2 {
		p[pairs[i].(string)] = pairs[i+1]
	}
	return p
}

// command is a hand in a command that the agent runs in a terminal.
func (s *fixture) command() *hand {
	s.t.Helper()
	stage := s.NewStage(s.t)
	s.agent.Request("terminal/create", params("command", program("attacker"), "args", []string{"hand", stage.Path}), nil)
	return s.awaitHand("a command", stage)
}

// positions runs an attack from each position that an agent can put it in: its own process and a command, each itself and
// as a process that got away from it. Each has a fixture of its own.
func positions(t *testing.T, flags func(*wire.Place) []string, attack func(t *testing.T, s *fixture, h *hand)) {
	for _, of := range []string{"agent", "command"} {
		for _, how := range []string{"itself", "orphan", "stray"} {
			t.Run(of+"/"+how, func(t *testing.T) {
				t.Parallel()
				s := openFixture(t, flags)
				h := s.hand
				if of == "command" {
					h = s.command()
				}
				if how != "itself" {
					h = h.spawn(how)
				}
				attack(t, s, h)
			})
		}
	}
}

// finish leaves as an editor does, and expects that nothing of acphost or its agent is left.
func (s *fixture) finish() {
	s.t.Helper()
	family, err := proc.Descendants(s.PID())
	if err != nil {
		s.t.Fatal(err)
	}
	s.Close()
	s.ExpectExit()
	s.ExpectNobody(s.t, family)
}

// person runs acphost as a person does, on a shell of theirs, and returns what it printed and its exit status.
func (s *fixture) person(args ...string) (string, int) {
	s.t.Helper()
	return runAs(s.t, s.Place, args...)
}

func runAs(t testing.TB, p *wire.Place, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(program("acphost"), args...)
	cmd.Dir, cmd.Env = p.Home, p.Env()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// sockets are the supervisor's sockets that have a path.
func (s *fixture) sockets() []string {
	s.t.Helper()
	var found []string
	if !testkit.Poll(func() bool {
		found, _ = filepath.Glob(filepath.Join(s.Home, "run", "acphost", fmt.Sprintf("%d-*.sock", s.PID())))
		return len(found) > 0
	}) {
		s.t.Fatal("the supervisor has no socket")
	}
	return found
}

// own are acphost's own processes, by what they are.
func (s *fixture) own() map[string]int {
	s.t.Helper()
	all := map[string]int{}
	if !testkit.Poll(func() bool {
		all = ownOf(s.t, s.PID())
		for _, name := range []string{"fsd", "termd", "permd", "the guard", "termd's guard"} {
			if all[name] == 0 {
				return false
			}
		}
		return true
	}) {
		s.t.Fatalf("acphost's processes are %v", all)
	}
	return all
}

func ownOf(t testing.TB, supervisor int) map[string]int {
	t.Helper()
	own := map[string]int{"the supervisor": supervisor}
	below, err := proc.Descendants(supervisor)
	if err != nil {
		t.Fatal(err)
	}
	name := map[int]string{}
	for _, pid := range below { // parents first
		argv, err := proc.CommandLine(pid)
		if err != nil || len(argv) == 0 || slices.ContainsFunc(argv, func(arg string) bool { return strings.Contains(arg, "/stage") }) {
			continue // it has ended, or is one of the attackers
		}
		base := filepath.Base(argv[0])
		switch {
		case len(argv) > 1 && strings.HasPrefix(argv[1], "guard") && name[parent(pid)] == "termd":
			name[pid] = "termd's guard"
		case len(argv) > 1 && strings.Contains(argv[1], "guard") && parent(pid) == supervisor:
			name[pid] = "the guard"
		case slices.Contains(programs, base):
			name[pid] = base
		default:
			continue
		}
		own[name[pid]] = pid
	}
	return own
}

// parent is a process's parent; 0: there is no such process.
func parent(pid int) int {
	n, _ := strconv.Atoi(statusOf(pid)["PPid"])
	return n
}

// statusOf is /proc/PID/status by its names; empty if there is no such process.
func statusOf(pid int) map[string]string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil
	}
	all := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		if k, v, ok := strings.Cut(lines.Text(), ":"); ok {
			all[k] = strings.TrimSpace(v)
		}
	}
	return all
}

// runs reports whether a process is there and has not ended.
func runs(pid int) bool {
	state := statusOf(pid)["State"]
	return state != "" && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// expectAlive fails the test unless all of acphost's processes are those that were there, and the supervisor answers.
func (s *fixture) expectAlive(was map[string]int) {
	s.t.Helper()
	for name, pid := range was {
		if !runs(pid) {
			s.t.Errorf("ATTACK SUCCEEDED: %s (process %d) is dead", name, pid)
		}
	}
	if out, status := s.person("ps", "--json"); status != 0 || !strings.Contains(out, strconv.Itoa(s.PID())) {
		s.t.Errorf("ATTACK SUCCEEDED: the supervisor does not answer (status %d): %s", status, out)
	}
}

// expectWork fails the test unless the agent's calls are still served: a file is read, a command runs.
func (s *fixture) expectWork() {
	s.t.Helper()
	s.File(s.t, "read-me", "here")
	if got := s.agent.Send("fs/read_text_file", params("path", s.Path("read-me"))).Answer(); !strings.Contains(string(got.Result), "here") {
		s.t.Errorf("ATTACK SUCCEEDED: a file cannot be read any more: %s", got.Raw)
	}
	if got := s.agent.Send("terminal/create", params("command", "true")).Answer(); got.Error != nil {
		s.t.Errorf("ATTACK SUCCEEDED: no command can be run any more: %s", got.Raw)
	}
}

// kill ends a process from outside, as a person's mistake or the kernel's need of memory does.
func (s *fixture) kill(pid int) {
	s.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.t.Fatalf("kill %d: %v", pid, err)
	}
}

// ownerOf is the user whose a file is.
func ownerOf(info os.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }
