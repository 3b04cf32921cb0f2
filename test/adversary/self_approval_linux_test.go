package adversary

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/adversary/orders"
	"github.com/acphost/acphost/test/wire"
)

const services = "acphost.supervisor.v1."

// question has the agent write a file, which the policy leaves to a person, and returns the question as the editor got it
// and its id as a person sees it.
func (s *fixture) question(file string) (call *wire.Call, asked wire.Message, id string) {
	s.t.Helper()
	call = s.agent.Send("fs/write_text_file", params("path", s.Path(file), "content", "written"))
	asked = s.Expect("session/request_permission")
	out, status := s.person("approvals", "list", "--json")
	waiting, err := testkit.JSONLines[struct{ ID string }]([]byte(out))
	if err != nil || len(waiting) != 1 {
		s.t.Fatalf("approvals list (status %d): %v: %s", status, err, out)
	}
	return call, asked, waiting[0].ID
}

// refuse answers a question as a person who is at the editor.
func (s *fixture) refuse(asked wire.Message) {
	s.t.Helper()
	s.Reply(asked, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "reject_once"}})
}

// notWritten fails the test if a file is there.
func notWritten(t testing.TB, path string) {
	t.Helper()
	if text, err := os.ReadFile(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ATTACK SUCCEEDED: %s is there: %.200q (%v)", filepath.Base(path), text, err)
	}
}

// verbs are calls that only a person may make, those first that do the most harm. id is a question that waits.
func verbs(id, canary string) []string {
	return []string{
		services + "ApprovalService/AnswerApproval", fmt.Sprintf(`{"id": %q, "optionId": "allow_once", "answeredBy": "a person"}`, id),
		services + "SupervisorControlService/ReloadPolicy", `{}`,
		services + "SupervisorControlService/RevokeGrants", `{}`,
		services + "ApprovalService/WatchApprovals", `{}`,
		services + "AgentService/StartAgent", fmt.Sprintf(`{"command": [%q, "canary", %q], "separate": true}`, program("attacker"), canary),
		services + "SessionService/NewSession", `{"agentId": "attacker", "cwd": "/"}`,
		services + "SessionService/SetMode", `{"sessionId": "s1", "modeId": "yolo"}`,
		services + "SessionService/Prompt", `{"sessionId": "s1", "prompt": [{"text": {"text": "hello"}}]}`,
		services + "SupervisorControlService/SwapHandler", fmt.Sprintf(`{"name": "nobody's", "command": [%q, "canary", %q]}`, program("attacker"), canary),
	}
}

// reads are calls that everybody may make who can connect.
var reads = []string{
	services + "SupervisorStateService/GetStatus", `{}`,
	services + "ApprovalService/ListApprovals", `{}`,
}

// wall reports whether a call was refused for who made it, or reached nobody: an error about what was asked for comes from
// behind the wall.
func wall(t orders.Try) bool {
	switch t.Err {
	case "PermissionDenied", "Unauthenticated", "Unimplemented", "EPERM", "EACCES":
		return true
	case "Unavailable":
		for _, why := range []string{"permission denied", "not permitted", "no such file", "refused", "EOF", "reset", "broken pipe", "draining", "closed"} { // or nobody is there
			if strings.Contains(t.Got, why) {
				return true
			}
		}
	}
	return false
}

// addresses are all that lead to the supervisor: its sockets with a path, and those without one that anybody finds.
func (h *hand) addresses() []string {
	h.t.Helper()
	var all []string
	for _, path := range h.s.sockets() {
		all = append(all, "unix:"+path)
	}
	for _, door := range h.try("doors", fmt.Sprint(h.s.PID())).worked() {
		if strings.HasPrefix(door.What, "unix:") {
			all = append(all, door.What)
		}
	}
	return all
}

// callsVerbs has an attacker call verbs wherever it gets in. None may pass the wall; reading works where there is a path.
func (h *hand) callsVerbs(addresses []string, id string) error {
	h.t.Helper()
	canary := h.s.Path("canary")
	for _, address := range addresses {
		answers, err := h.order("call", append([]string{address}, verbs(id, canary)...)...)
		if err != nil {
			return err
		}
		for _, a := range answers {
			if !wall(a) {
				h.t.Errorf("ATTACK SUCCEEDED: %s called at %s: %s", h.name, address, a)
			}
		}
	}
	notWritten(h.t, canary)
	return nil
}

// above are the processes that keep an attacker in its place.
func above(h *hand) []string {
	if strings.Contains(h.name, "command") {
		return []string{"termd's guard", "termd", "the guard"}
	}
	return []string{"the guard"}
}

// TestSelfApproval_Fails: acphost recognizes agents by the processes above them. The agent tries to end such a process
// by lowering its resource limits, and then to answer its own question.
func TestSelfApproval_Fails(t *testing.T) {
	needsConfinement(t)
	t.Parallel()
	positions(t, policy(askWrites, ""), func(t *testing.T, s *fixture, h *hand) {
		own := s.own()
		call, asked, id := s.question("stolen")
		addresses := h.addresses()
		for _, address := range addresses[:1] {
			for _, a := range h.try("call", append([]string{address}, reads...)...) {
				if a.Err != "" {
					t.Errorf("reading is not open: %s", a)
				}
			}
		}
		for _, name := range above(h) {
			for _, a := range h.try("limit", fmt.Sprint(own[name]), "AS", "DATA", "CPU") {
				if a.Err != "EPERM" {
					t.Errorf("ATTACK SUCCEEDED: %s, of %s: %s, want EPERM", h.name, name, a)
				}
			}
			if _, err := h.order("storm", "60"); err != nil {
				t.Errorf("%s did not live to go on: %v", h.name, err)
			}
		}
		if err := h.callsVerbs(addresses, id); err != nil {
			t.Errorf("%s could not call: %v", h.name, err)
		}
		notWritten(t, s.Path("stolen"))
		s.expectAlive(own)
		if !t.Failed() {
			s.refuse(asked)
			call.Refused(-32603)
			s.finish()
		}
		h.leave()
	})
}

// TestLimits_AgentCannotLowerThoseOfAcphost tries each resource limit of each of acphost's processes.
func TestLimits_AgentCannotLowerThoseOfAcphost(t *testing.T) {
	needsConfinement(t)
	t.Parallel()
	for _, of := range []string{"agent", "command"} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			s := openFixture(t, policy(askWrites, ""))
			own, h := s.own(), s.hand
			if of == "command" {
				h = s.command()
			}
			for name, pid := range own {
				for _, a := range h.try("limit", fmt.Sprint(pid)) {
					if a.Err != "EPERM" {
						t.Errorf("ATTACK SUCCEEDED: %s, of %s: %s, want EPERM", h.name, name, a)
					}
				}
			}
			if !t.Failed() { // a supervisor that cannot live may not answer for a long time
				s.expectAlive(own)
				s.expectWork()
				s.finish()
			}
			h.leave()
		})
	}
}

// TestOrphan_IsRejectedAfterAnyKill: if the process above an orphan is killed from outside, as by the kernel without
// memory, the orphan is rejected and killed.
func TestOrphan_IsRejectedAfterAnyKill(t *testing.T) {
	needsConfinement(t)
	t.Parallel()
	for _, c := range []struct {
		of     string
		killed []string
	}{
		{"agent", []string{"the guard"}},
		{"command", []string{"termd"}},
		{"command", []string{"termd's guard", "termd"}},
		{"command", []string{"the guard", "termd"}},
	} {
		for _, how := range []string{"orphan", "stray"} {
			t.Run(fmt.Sprintf("%s of %s, killed: %s", how, c.of, strings.Join(c.killed, " and ")), func(t *testing.T) {
				t.Parallel()
				s := openFixture(t, policy(askWrites, ""))
				own, h := s.own(), s.hand
				if c.of == "command" {
					h = s.command()
				}
				stray := h.spawn(how)
				_, _, id := s.question("stolen")
				addresses := stray.addresses()
				for _, address := range addresses { // over a connection that is older than the deed, too
					addresses = append(addresses, "held:"+address)
				}
				if err := stray.callsVerbs(addresses, id); err != nil {
					t.Fatalf("the stray could not call: %v", err)
				}
				for _, name := range c.killed {
					s.kill(own[name])
				}
				// It calls for as long as it lives, which may not be long.
				if !testkit.Poll(func() bool {
					return stray.callsVerbs(addresses, id) != nil || t.Failed()
				}) {
					t.Errorf("ATTACK SUCCEEDED: %s lives on and goes on calling", stray.name)
				}
				notWritten(t, s.Path("stolen"))
				stray.expectEnd()
			})
		}
	}
}
