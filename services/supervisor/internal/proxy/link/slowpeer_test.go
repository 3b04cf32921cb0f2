package link

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
)

// TestCall_TimesOnlyHandler has a call wait for room for its answer, as it does while the agent does not read earlier
// answers. The handler then has its whole time.
func TestCall_TimesOnlyHandler(t *testing.T) {
	deadlines := make(chan time.Time, 1)
	r := newRig(t)
	r.handler.read = func(ctx context.Context, _ *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
		deadline, _ := ctx.Deadline()
		deadlines <- deadline
		return &fsv1.ReadTextFileResponse{Content: "text"}, nil
	}
	r.open(`{}`)
	read := func(id string) {
		r.agent.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/f"}}`)
	}
	read("1")
	<-deadlines
	r.agent.next()
	budget := &r.queue.budget
	all, err := budget.reserve(t.Context(), budget.total)
	if err != nil {
		t.Fatal(err)
	}
	read("2")
	waits := func() bool {
		budget.mu.Lock()
		defer budget.mu.Unlock()
		return len(budget.turns) > 0
	}
	testkit.Eventually(t, "the call waits for room", waits)
	time.Sleep(100 * time.Millisecond) // this time must not count; nothing is synchronized by it
	given := time.Now()
	budget.give(all)
	if deadline := <-deadlines; deadline.Before(given.Add(callTimeout)) {
		t.Errorf("the handler has %v, want %v", deadline.Sub(given), callTimeout)
	}
	if got := r.agent.next(); !strings.Contains(got, `"content":"text"`) {
		t.Errorf("the agent got %s", got)
	}
}
