package activity

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

// TestSecrets_AreNeitherRecordedNorSent plays what carries secrets, each with "hush" in it.
func TestSecrets_AreNeitherRecordedNorSent(t *testing.T) {
	dir := recordDir(t)
	p := open(t, dir, "here", Options{SecretVariables: []string{"MY_*"}})
	var live []*supervisorv1.Event
	var wg sync.WaitGroup
	var result error
	p.watching(t.Context(), &wg, &result, func(ev *supervisorv1.Event) error {
		if ev.GetHandler() != nil {
			return errEnough
		}
		live = append(live, ev)
		return nil
	})
	a := p.link("alpha-1")
	say := func(d frame.Direction, line string) {
		f := frame.Frame{Direction: d, Line: []byte(line + "\n")}
		if a.Frame(f); string(f.Line) != line+"\n" {
			t.Errorf("a forwarded message became %s", f.Line)
		}
	}
	say(frame.ClientToAgent, `{"id":0,"method":"initialize","params":{"_meta":{"apiKey":"hush"}}}`)
	say(frame.ClientToAgent, `{"id":1,"method":"authenticate","params":{"methodId":"key","key":"hush"}}`)
	say(frame.ClientToAgent, `{"id":2,"method":"session/new","params":{"cwd":"/w","mcpServers":[{"name":"m","env":[{"name":"A","value":"hush"}]},{"type":"http","headers":[{"name":"A","value":"hush"}]}],"_meta":{"apiKey":"hush"}}}`)
	say(frame.AgentToClient, `{"id":2,"result":{"sessionId":"s"}}`)
	say(frame.ClientToAgent, `{"id":3,"method":"session/load","params":{"sessionId":"s","cwd":"/w","mcpServers":[{"env":[{"name":"A","value":"hush"}]}]}}`)
	say(frame.AgentToClient, `{"id":3,"result":null}`)
	say(frame.ClientToAgent, `{"id":4,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"go"}],"_meta":{"apiKey":"hush"}}}`)
	for _, large := range []string{"", strings.Repeat("-hush", 40<<10)} { // which would be abbreviated otherwise
		say(frame.AgentToHandler, `{"id":5,"method":"terminal/create","params":{"sessionId":"s","command":"x","env":[{"name":"A_TOKEN","value":"hush`+large+`"},{"name":"MY_OWN","value":"hush"}]}}`)
		say(frame.HandlerToAgent, `{"id":5,"result":{"terminalId":"t"}}`)
	}
	for _, d := range []frame.Direction{frame.ClientToAgent, frame.OursToAgent} {
		say(frame.AgentToClient, `{"id":6,"method":"elicitation/create","params":{"sessionId":"s","mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"code":{"type":"string","format":"password"}}}}}`)
		say(d, `{"id":6,"result":{"action":"accept","content":{"code":"hush"}}}`)
	}
	say(frame.AgentToClient, `{"id":4,"result":{"stopReason":"end_turn"}}`)
	a.Frame(frame.Frame{Direction: frame.ClientToAgent, Handler: "refused", Line: []byte(`{"id":7,"method":"session/load","params":{"sessionId":"s","mcpServers":"hush` + "\n")})
	p.Publish(&supervisorv1.Event{Event: &supervisorv1.Event_Handler{Handler: &supervisorv1.HandlerChanged{Name: "the end"}}})
	wg.Wait()
	if !errors.Is(result, errEnough) {
		t.Fatal(result)
	}

	var ofSession []*supervisorv1.Event
	calls, answers := 0, 0
	for _, ev := range live {
		if strings.Contains(prototext.Format(ev), "hush") {
			t.Errorf("got %s", prototext.Format(ev))
		}
		if ev.GetSessionId() == "s" {
			ofSession = append(ofSession, ev)
		}
		switch {
		case ev.GetCallStarted() != nil && strings.Contains(ev.GetRaw(), `"A_TOKEN","value":"[redacted]"`):
			calls++
		case ev.GetQuestionAnswered().GetOutcome() == "accepted" && strings.Contains(ev.GetRaw(), `{"code":"[redacted]"}`):
			answers++
		}
	}
	if calls != 2 || answers != 2 {
		t.Errorf("%d calls and %d answers are reported, want 2 of each", calls, answers)
	}
	same(t, "from the record", p.allOf(t, "s", ""), ofSession)
	p.shut(t)
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.ndjson"))
	if err != nil || len(files) != 2 {
		t.Fatalf("the files are %q (%v), want that of the session and that of the link", files, err)
	}
	redacted := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("hush")) {
			t.Errorf("%s has a secret:\n%.4000s", file, data)
		}
		redacted += bytes.Count(data, []byte("[redacted"))
	}
	if redacted != 2+4+1+4+2+1 {
		t.Errorf("%d secrets were taken out, want 14", redacted)
	}
	p = open(t, dir, "there", Options{})
	same(t, "by another supervisor", p.allOf(t, "s", ""), ofSession)
}
