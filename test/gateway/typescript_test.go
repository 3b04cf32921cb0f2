package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
)

// transcript is the output of the editor on the TypeScript SDK.
type transcript struct {
	Updates   []map[string]any
	Requests  []struct{ Method string }
	Answer    struct{ StopReason string }
	Report    map[string]any
	Longest   int
	Completed bool
	Exit      struct{ Code int }
	Raw       map[string]any
}

// playTypeScript plays a turn with the TypeScript SDK at both ends.
func playTypeScript(t *testing.T, p *e2e.Place, prompt string, flags []string, env ...string) transcript {
	t.Helper()
	return playTypeScriptWith(t, p, prompt, slices.Concat([]string{e2e.Program("acphost"), "run"}, flags, []string{"--", "node", e2e.Peer(t, "ts-agent.mjs")}), env...)
}

// playTypeScriptWith plays a turn with the TypeScript SDK at the editor's end. The agent is a command, or the URL of
// one.
func playTypeScriptWith(t *testing.T, p *e2e.Place, prompt string, agent []string, env ...string) transcript {
	t.Helper()
	command := append([]string{e2e.Peer(t, "ts-editor.mjs"), p.Work, prompt, "--"}, agent...)
	cmd := exec.Command("node", command...)
	cmd.Dir, cmd.Env = p.Work, p.Env(env...)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	timer := time.AfterFunc(testkit.Timeout(), func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Run()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("standard error:\n%s\nthe editor saw:\n%s", stderr.String(), e2e.Shorten(stdout.String()))
		}
	})
	if err != nil {
		t.Fatalf("the turn: %v", err)
	}
	var seen transcript
	if err := json.Unmarshal(stdout.Bytes(), &seen); err != nil {
		t.Fatalf("the editor printed no transcript: %v", err)
	}
	if err := json.Unmarshal(stdout.Bytes(), &seen.Raw); err != nil {
		t.Fatal(err)
	}
	if seen.Exit.Code != 0 {
		t.Errorf("acphost exited with status %d, want 0", seen.Exit.Code)
	}
	return seen
}

func TestTypeScript_EveryMethod(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	expectEveryMethod(t, p, playTypeScript(t, p, "everything", nil))
}

// expectEveryMethod checks the turn in which ts-agent.mjs uses every method.
func expectEveryMethod(t *testing.T, p *e2e.Place, seen transcript) {
	t.Helper()
	result := func(v any) any { return map[string]any{"result": v} }
	for name, want := range map[string]any{
		"write":         result(map[string]any{}),
		"read":          result(map[string]any{"content": "one\ntwo\nthree\n"}),
		"readPart":      result(map[string]any{"content": "two\n"}),
		"permission":    result(map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}}),
		"exit":          result(map[string]any{"exitCode": 3, "signal": nil}),
		"output":        result(map[string]any{"output": "out\nerr\n", "truncated": false, "exitStatus": map[string]any{"exitCode": 3, "signal": nil}}),
		"release":       result(map[string]any{}),
		"kill":          result(map[string]any{}),
		"killedExit":    result(map[string]any{"exitCode": nil, "signal": "SIGTERM"}),
		"killedRelease": result(map[string]any{}),
		"elicitation":   result(map[string]any{"action": "accept", "content": map[string]any{"colour": "blue"}}),
	} {
		if got := seen.Report[name]; !sameButNull(got, e2e.Plain(t, want)) {
			t.Errorf("%s: the agent was answered %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]struct {
		code    float64
		message string
	}{
		"readMissing":        {-32002, "Resource not found: " + p.Path("missing.txt")},
		"readOutside":        {-32602, "Path escapes workspace: /etc/hostname"},
		"outputAfterRelease": {-32002, "Resource not found: "},
		"unknown":            {-32601, "_nobody/knows"},
	} {
		got := e2e.Dig(seen.Report, name, "error")
		message, _ := e2e.Dig(got, "message").(string)
		if e2e.Dig(got, "code") != want.code || !strings.Contains(message, want.message) {
			t.Errorf("%s: the agent was refused with %v, want %v %q", name, got, want.code, want.message)
		}
	}

	for _, r := range seen.Requests {
		if strings.HasPrefix(r.Method, "fs/") || strings.HasPrefix(r.Method, "terminal/") {
			t.Errorf("the editor was asked for %s", r.Method)
		}
	}
	if len(seen.Requests) != 3 { // the question, the form, and the unknown method
		t.Errorf("the editor was asked %v", seen.Requests)
	}
	if !seen.Completed || seen.Answer.StopReason != "end_turn" {
		t.Errorf("elicitation/complete arrived: %v; the turn ended with %q", seen.Completed, seen.Answer.StopReason)
	}
	var kinds []string
	for _, u := range seen.Updates {
		kinds = append(kinds, u["sessionUpdate"].(string))
	}
	for _, kind := range []string{"agent_thought_chunk", "plan", "available_commands_update", "current_mode_update", "tool_call", "tool_call_update", "agent_message_chunk"} {
		if !slices.Contains(kinds, kind) {
			t.Errorf("no %s reached the editor: %q", kind, kinds)
		}
	}
	if got, err := os.ReadFile(p.Path("every.txt")); err != nil || string(got) != "one\ntwo\nthree\n" {
		t.Errorf("every.txt holds %q (%v)", got, err)
	}
}

// sameButNull compares JSON values where a member that is null may as well be missing.
func sameButNull(a, b any) bool {
	x, ok := a.(map[string]any)
	y, ok2 := b.(map[string]any)
	if !ok || !ok2 {
		return fmt.Sprint(a) == fmt.Sprint(b)
	}
	for k, v := range x {
		if v != nil && !sameButNull(v, y[k]) {
			return false
		}
	}
	for k, v := range y {
		if v != nil && x[k] == nil {
			return false
		}
	}
	return true
}

func TestTypeScript_FiftyReadsAtOnce(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	var want []any
	for i := range 50 {
		text := strings.Repeat(fmt.Sprintf("file %d\n", i), 1+i*100)
		p.File(t, fmt.Sprintf("f%d.txt", i), text)
		want = append(want, text)
	}
	seen := playTypeScript(t, p, "concurrent 50", nil)
	if got, _ := seen.Report["contents"].([]any); !slices.Equal(got, want) {
		t.Errorf("the agent read %.1000v", got)
	}
}

func TestTypeScript_CancelledWaitKillsNothing(t *testing.T) {
	t.Parallel()
	seen := playTypeScript(t, e2e.NewPlace(t), "cancelWait", nil)
	if code := e2e.Dig(seen.Report, "cancelled", "error", "code"); code != -32800.0 {
		t.Errorf("the wait was answered with %v, want -32800", seen.Report["cancelled"])
	}
	if status := e2e.Dig(seen.Report, "output", "result", "exitStatus"); status != nil {
		t.Errorf("after the cancelled wait the command had ended: %v", status)
	}
	if signal := e2e.Dig(seen.Report, "exit", "result", "signal"); signal != "SIGTERM" {
		t.Errorf("the killed command ended with %v, want SIGTERM", seen.Report["exit"])
	}
}

func TestTypeScript_WithdrawnQuestionsAreAnsweredOnce(t *testing.T) {
	t.Parallel()
	seen := playTypeScript(t, e2e.NewPlace(t), "cancelQuestions 60", nil)
	answers, _ := seen.Report["cancelled"].([]any)
	if len(answers) != 60 {
		t.Fatalf("%d questions were answered, want 60", len(answers))
	}
	for _, a := range answers {
		if e2e.Dig(a, "error", "code") != -32800.0 && e2e.Dig(a, "result", "outcome", "outcome") != "cancelled" {
			t.Errorf("a withdrawn question was answered with %v", a)
		}
	}
}

func TestTypeScript_CancelledTurnAnswersQuestion(t *testing.T) {
	t.Parallel()
	seen := playTypeScript(t, e2e.NewPlace(t), "cancel:untilCancelled", nil)
	if got := e2e.Dig(seen.Report, "question", "result", "outcome", "outcome"); got != "cancelled" {
		t.Errorf("the question was answered with %v, want cancelled", seen.Report["question"])
	}
	if seen.Answer.StopReason != "cancelled" {
		t.Errorf("the turn ended with %q, want cancelled", seen.Answer.StopReason)
	}
}

func TestTypeScript_Passes20MiB(t *testing.T) {
	t.Parallel()
	seen := playTypeScript(t, e2e.NewPlace(t), "big:20", nil)
	if want := seen.Report["characters"]; want != float64(seen.Longest) || seen.Longest < 20<<20 {
		t.Errorf("the editor got %d characters, the agent sent %v", seen.Longest, want)
	}
	if got := seen.Report["promptCharacters"]; got != float64(20<<20+len("big 20")) {
		t.Errorf("the agent got a prompt of %v characters", got)
	}
}
