package display

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is what a Display writes to, and what the path writes to beside it.
type client struct {
	mu     sync.Mutex
	busy   bool     // somebody else writes: TrySend sends nothing
	deaf   chan int // not nil: a write blocks until it is closed
	lines  []string
	failed error
	tries  int // TrySends that found the client busy
}

func (f *client) TrySend(frame []byte) bool {
	f.mu.Lock()
	if f.busy {
		f.tries++
	}
	busy := f.busy
	f.mu.Unlock()
	return !busy && f.Send(frame) == nil
}

func (f *client) Send(bufs ...[]byte) error {
	f.mu.Lock()
	deaf := f.deaf
	f.mu.Unlock()
	if deaf != nil {
		<-deaf
		return errors.New("the front is gone")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil {
		return f.failed
	}
	var all strings.Builder
	for _, b := range bufs {
		all.Write(b)
	}
	f.lines = append(f.lines, strings.SplitAfter(strings.TrimSuffix(all.String(), "\n"), "\n")...)
	for i, l := range f.lines {
		f.lines[i] = strings.TrimSuffix(l, "\n")
	}
	return nil
}

func (f *client) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// take returns the lines since the last take.
func (f *client) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := f.lines
	f.lines = nil
	return lines
}

// handler is a terminal handler whose terminals write what a test says.
type handler struct {
	mu      sync.Mutex
	watches map[string]*watch
	refuse  error // what Watch answers
	seen    []*terminalv1.WatchRequest
}

// watch is one stream.
type watch struct {
	grpc.ClientStream
	ctx    context.Context
	h      *handler
	events chan any // *terminalv1.WatchResponse or error
}

func (h *handler) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return errors.New("nothing but Watch is expected")
}

func (h *handler) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	if method != terminalv1.TerminalService_Watch_FullMethodName {
		return nil, errors.New("nothing but Watch is expected, not " + method)
	}
	return &watch{ctx: ctx, h: h}, nil
}

// of returns the events of a terminal: what is sent before it is watched is kept, as a handler does.
func (h *handler) of(id string) chan any {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watches[id] == nil {
		if h.watches == nil {
			h.watches = map[string]*watch{}
		}
		h.watches[id] = &watch{events: make(chan any, 4096)}
	}
	return h.watches[id].events
}

func (h *handler) writes(id, data string) {
	h.of(id) <- &terminalv1.WatchResponse{Event: &terminalv1.WatchResponse_Data{Data: []byte(data)}}
}

func (h *handler) drops(id string, n uint64) {
	h.of(id) <- &terminalv1.WatchResponse{Event: &terminalv1.WatchResponse_DroppedBytes{DroppedBytes: n}}
}

func (h *handler) exits(id string, code uint32) {
	h.of(id) <- &terminalv1.WatchResponse{Event: &terminalv1.WatchResponse_Exit{Exit: &terminalv1.ExitStatus{ExitCode: &code}}}
}

func (h *handler) dies(id, signal string) {
	h.of(id) <- &terminalv1.WatchResponse{Event: &terminalv1.WatchResponse_Exit{Exit: &terminalv1.ExitStatus{Signal: &signal}}}
}

func (w *watch) SendMsg(m any) error {
	r, ok := m.(*terminalv1.WatchRequest)
	if !ok {
		return errors.New("no WatchRequest")
	}
	w.h.mu.Lock()
	w.h.seen = append(w.h.seen, r)
	refuse := w.h.refuse
	w.h.mu.Unlock()
	w.events = w.h.of(r.GetTerminalId())
	if refuse != nil {
		w.events = make(chan any, 1)
		w.events <- refuse
	}
	return nil
}

func (w *watch) CloseSend() error             { return nil }
func (w *watch) Header() (metadata.MD, error) { return nil, nil }
func (w *watch) Trailer() metadata.MD         { return nil }
func (w *watch) Context() context.Context     { return w.ctx }

func (w *watch) RecvMsg(m any) error {
	select {
	case ev, open := <-w.events:
		if !open {
			return io.EOF
		}
		if err, ok := ev.(error); ok {
			return err
		}
		proto.Merge(m.(proto.Message), ev.(*terminalv1.WatchResponse))
		return nil
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

// rig is a Display between a client and a handler.
type rig struct {
	*Display
	t       *testing.T
	client  *client
	handler *handler
	down    error
	calls   map[string]*acp.ToolCall
}

func newRig(t *testing.T, metadata bool) *rig {
	t.Helper()
	r := &rig{t: t, client: &client{}, handler: &handler{}, calls: map[string]*acp.ToolCall{}}
	r.Display = New(Options{
		Sink:   r.client,
		Conn:   func(string) (grpc.ClientConnInterface, error) { return r.handler, r.down },
		Logger: slog.New(slog.DiscardHandler),
	})
	r.Client(metadata)
	t.Cleanup(r.Close)
	return r
}

// update sends an update of the agent's through the Display, as the link does, and returns the line.
func (r *rig) update(session, update string) string {
	r.t.Helper()
	line := `{"jsonrpc":"2.0", "method":"session/update","params":{"sessionId":"` + session + `","update":` + update + `},"x":1e+2}`
	r.forward(session, line, "params", "update")
	return line
}

func (r *rig) forward(session, line string, at ...string) {
	r.t.Helper()
	report := acp.Get([]byte(line), at...)
	key := session + "/" + acp.ToolCallID(report)
	if r.calls[key] == nil {
		r.calls[key] = &acp.ToolCall{}
	}
	r.calls[key].Merge(report)
	if !Mentions(report) {
		if err := r.client.Send([]byte(line + "\n")); err != nil {
			r.t.Fatal(err)
		}
		return
	}
	if err := r.Forward(session, []byte(line+"\n"), *r.calls[key], r.client.Send, at...); err != nil {
		r.t.Fatal(err)
	}
}

// want checks what the client got since the last look.
func (r *rig) want(lines ...string) {
	r.t.Helper()
	got := r.client.take()
	if len(got) != len(lines) {
		r.t.Fatalf("the client got %d lines:\n%s\nwant %d:\n%s", len(got), strings.Join(got, "\n"), len(lines), strings.Join(lines, "\n"))
	}
	for i := range lines {
		if got[i] != lines[i] {
			r.t.Fatalf("line %d is\n%s\nwant\n%s", i, got[i], lines[i])
		}
	}
}

const updateOf = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"`

func outputLine(call, id, data string) string {
	return updateOf + call + `","_meta":{"terminal_output":{"terminal_id":"` + id + `","data":` + quoted(data) + `}}}}}`
}

func exitLine(call, id, code, signal string) string {
	return updateOf + call + `","_meta":{"terminal_exit":{"terminal_id":"` + id + `","exit_code":` + code + `,"signal":` + signal + `}}}}}`
}

func contentLine(call string, items ...string) string {
	return updateOf + call + `","content":[` + strings.Join(items, ",") + `]}}}`
}

func introLine(call, members, content, after, id string) string {
	return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"` + call + `"` +
		members + `,"content":` + content + after + `,"_meta":{"terminal_info":{"terminal_id":"` + id + `","cwd":"/w"}}}}}`
}

func terminalItem(id string) string { return `{"type":"terminal","terminalId":"` + id + `"}` }

func textLine(text string) string {
	return `{"type":"content","content":{"type":"text","text":` + quoted(text) + `}}`
}

func quoted(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

func dataEvent(data string) any {
	return &terminalv1.WatchResponse{Event: &terminalv1.WatchResponse_Data{Data: []byte(data)}}
}
