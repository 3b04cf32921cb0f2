package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// dying is an agent that reads one line, prints its last words and ends.
func dying(how string) []string {
	return []string{"sh", "-c", "read line; echo the last words of the agent >&2; " + how}
}

func TestAgentExit_ReportedToEditorWithStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		agent  []string
		status int
		want   []string // in the error that initialize is answered with
	}{
		{"it exits", dying("exit 3"), 3, []string{"status 3", "the last words of the agent"}},
		{"it exits with success", dying("exit 0"), 0, []string{"initialize"}},
		{"it crashes", dying("kill -SEGV $$"), 128 + 11, []string{"SIGSEGV", "the last words of the agent"}},
		{"it is killed", dying("kill -KILL $$"), 128 + 9, []string{"SIGKILL", "the last words of the agent"}},
		{"it is not there", []string{"no-such-agent"}, 127, nil},
		{"it is not there, by its path", []string{"/nowhere/agent"}, 127, nil},
		{"it is no program", []string{"/etc/passwd"}, 126, nil},
		{"it is a folder", []string{"/etc"}, 126, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			h := p.Start(t, nil, c.agent)
			if len(c.want) > 0 {
				e := h.Initialize(`{}`).Refused(-32603)
				e2e.ExpectContains(t, "the error", e.Message, c.want...)
			}
			if status := h.ExpectExit(); status != c.status {
				t.Errorf("the exit status is %d, want %d", status, c.status)
			}
			if len(c.want) == 0 {
				e2e.ExpectContains(t, "standard error", h.Stderr(), c.agent[0])
			}
			p.ExpectNobody(t, nil)
		})
	}
}

func TestInitialize_TimesOutWithoutAnswer(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	h := p.Start(t, p.Config(t, "agent: {initialize_timeout_seconds: 1}\n"), e2e.Role("silent"))
	e := h.Initialize(`{}`).Refused(-32603)
	e2e.ExpectContains(t, "the error", e.Message, "initialize", "1s", "initialize_timeout_seconds")
	if status := h.ExpectExit(); status != 1 {
		t.Errorf("the exit status is %d, want 1", status)
	}
}

func TestRun_ReportsStartErrorsToEditor(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	h := p.Start(t, p.Config(t, fmt.Sprintf("handlers: {terminal: {command: [%q], no_tls: true}}\n", e2e.Program("termd"))), e2e.Role("silent"))
	e := h.Initialize(`{}`).Refused(-32603)
	e2e.ExpectContains(t, "the error", e.Message, "handlers.terminal", "no_tls")
	if status := h.ExpectExit(); status != 1 {
		t.Errorf("the exit status is %d, want 1", status)
	}
}

func TestAgent_KilledAfterItClosesOutput(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	h := p.Start(t, p.Config(t, "agent: {stop_grace_ms: 200}\n"), e2e.Role("mute"))
	e := h.Initialize(`{}`).Refused(-32603)
	e2e.ExpectContains(t, "the error", e.Message, "closed its standard output")
	if status := h.ExpectExit(); status == 0 {
		t.Errorf("the exit status is 0, want the one of a failure")
	}
	p.ExpectNobody(t, nil)
}

func TestAgentCrash_AnswersOpenRequests(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	var open []*wire.Call
	for range 5 {
		open = append(open, s.Send("session/prompt", map[string]any{"sessionId": "s1", "prompt": []any{}}))
		s.Agent.Expect("session/prompt")
	}
	s.Agent.Write(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"plan","entries":[]}}}`)
	s.Agent.Close() // the puppet exits with 0
	s.Expect("session/update")
	for _, call := range open {
		if e := call.Refused(-32603); !strings.Contains(e.Message, "session/prompt") {
			t.Errorf("the turn was refused with %q", e.Message)
		}
	}
	if status := s.ExpectExit(); status != 0 {
		t.Errorf("the exit status is %d, want the agent's 0", status)
	}
	p.ExpectNobody(t, nil)
}

func TestAgentExit_ForwardsLastOutput(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	h := p.Start(t, nil, []string{"sh", "-c", `read line; i=0; while [ $i -lt 2000 ]; do echo '{"jsonrpc":"2.0","method":"_n","params":{"n":'$i'}}'; i=$((i+1)); done; echo bye >&2; exit 5`})
	call := h.Initialize(`{}`)
	for i := range 2000 {
		var got struct{ N int }
		if h.Expect("_n").Decode(t, &got); got.N != i {
			t.Fatalf("notification %d arrived where %d should", got.N, i)
		}
	}
	e2e.ExpectContains(t, "the error", call.Refused(-32603).Message, "status 5", "bye")
	if status := h.ExpectExit(); status != 5 {
		t.Errorf("the exit status is %d, want 5", status)
	}
	// Editors show the end of the standard error.
	e2e.ExpectContains(t, "standard error", h.Stderr(), "bye\n")
}

func TestInitialize_FailsIfHandlerDoesNotStart(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	st := p.Stage(t)
	h := p.Start(t, p.Config(t, "handlers: {fs: {command: [/bin/false]}}\n"), st.Command)
	st.Play(t)
	e := h.Initialize(`{}`).Refused(-32603)
	e2e.ExpectContains(t, "the error", e.Message, "fs")
	if status := h.ExpectExit(); status != 1 {
		t.Errorf("the exit status is %d, want 1", status)
	}
	p.ExpectNobody(t, nil)
}

func TestAgent_InheritsEnvironmentAndFolder(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	h := p.Start(t, nil, []string{"sh", "-c", `echo "{\"method\":\"_env\",\"params\":{\"folder\":\"$PWD\",\"mine\":\"$MINE\"}}"; cat >/dev/null`}, "MINE=of the editor")
	var got struct{ Folder, Mine string }
	h.Expect("_env").Decode(t, &got)
	if got.Folder != p.Work || got.Mine != "of the editor" {
		t.Errorf("the agent has %+v", got)
	}
	if status := h.Finish(); status != 0 {
		t.Errorf("the exit status is %d, want 0", status)
	}
}
