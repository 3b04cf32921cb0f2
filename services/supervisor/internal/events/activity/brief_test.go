package activity

import (
	"context"
	"fmt"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

// An agent reads and writes many large files at once, and its client waits for nothing of that.
func TestSubscription_LargeFilesDoNotCutOffPrompter(t *testing.T) {
	p := open(t, recordDir(t), "i", Options{MaxQueued: 1 << 20})
	o := p.Observer(&frame.Agent{ID: "a-1", Name: "a"})
	o.Frame(frame.Frame{Direction: frame.ClientToAgent, Line: []byte(`{"jsonrpc":"2.0","id":0,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`)})
	o.Frame(frame.Frame{Direction: frame.AgentToClient, Line: []byte(`{"jsonrpc":"2.0","id":0,"result":{"sessionId":"s"}}`)})
	sub := p.Subscribe("a-1", "s")
	defer sub.Close()
	if err := p.WaitRoom(t.Context(), "a-1"); err != nil {
		t.Fatal(err)
	}
	const calls = 8 // each is as large as the queue
	content := strings.Repeat("x", 1<<20)
	for i := range calls {
		id := []byte(fmt.Sprint(i))
		o.Frame(frame.Frame{Direction: frame.AgentToHandler, Handler: "fs", Scanned: true, ID: id, Method: []byte("fs/write_text_file"), SessionID: []byte("s"),
			Line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"fs/write_text_file","params":{"_meta":{"path":"/no"},"sessionId":"s","path":"/w/%d","content":"%s"}}`, i, i, content)})
		o.Frame(frame.Frame{Direction: frame.HandlerToAgent, Handler: "fs",
			Line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{"content":"`, i), Rest: [][]byte{[]byte(content), []byte("\"}}\n")}})
	}
	var began, ended int
	for ended < calls {
		e, err := sub.Next(t.Context())
		if err != nil {
			t.Fatalf("after %d calls: %v", ended, err)
		}
		if c := e.GetCallStarted(); c != nil {
			if want := fmt.Sprintf("/w/%d", began); c.GetPath() != want || e.GetRaw() != "" {
				t.Errorf("path %q, want %q; raw %q", c.GetPath(), want, e.GetRaw())
			}
			began++
		}
		if c := e.GetCallEnded(); c != nil {
			if c.GetError() != "" || e.GetRaw() != "" {
				t.Errorf("got %v", e)
			}
			ended++
		}
	}
	// From the record it is the same.
	var again int
	err := p.WatchSession(context.Background(), &supervisorv1.WatchSessionRequest{AgentId: "a-1", SessionId: "s", NoFollow: true}, func(e *supervisorv1.Event) error {
		if c := e.GetCallStarted(); c != nil {
			if want := fmt.Sprintf("/w/%d", again); c.GetPath() != want || e.GetRaw() != "" {
				t.Errorf("from the record: path %q, want %q; raw %.80q", c.GetPath(), want, e.GetRaw())
			}
			again++
		}
		return nil
	})
	if err != nil || again != calls {
		t.Errorf("from the record: %d calls, %v; want %d", again, err, calls)
	}
}
