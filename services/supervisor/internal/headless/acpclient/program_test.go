package acpclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// far is the link's end of a Program, as a test plays it.
type far struct {
	*Program
	t  *testing.T
	in *bufio.Reader
}

func newFar(t *testing.T, o ProgramOptions) *far {
	p := NewProgram(o)
	t.Cleanup(p.Close)
	return &far{Program: p, t: t, in: bufio.NewReader(p.In())}
}

// want reads the next line that the program sends.
func (f *far) want(want string) {
	f.t.Helper()
	got, err := f.in.ReadString('\n')
	if err != nil || strings.TrimSuffix(got, "\n") != want {
		f.t.Fatalf("got  %s (%v)\nwant %s", got, err, want)
	}
}

func (f *far) write(s string) {
	f.t.Helper()
	if n, err := io.WriteString(f.Out(), s); err != nil || n != len(s) {
		f.t.Fatalf("write %.80q: %d, %v", s, n, err)
	}
}

func (f *far) send(method, params string) *Pending {
	f.t.Helper()
	c, err := f.Send(f.t.Context(), method, []byte(params))
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func (f *far) wantResult(c *Pending, want string) {
	f.t.Helper()
	got, err := c.Wait(f.t.Context())
	if err != nil || string(got) != want {
		f.t.Fatalf("got %s, %v, want %s", got, err, want)
	}
}

func TestProgram_AcceptsResultsInAnyOrder(t *testing.T) {
	f := newFar(t, ProgramOptions{})
	a, b := f.send("initialize", `{"protocolVersion":1}`), f.send("session/new", `{}`)
	if err := f.Notify("session/cancel", []byte(`{"sessionId":"s"}`)); err != nil {
		t.Fatal(err)
	}
	f.want(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`)
	f.want(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}`)
	f.want(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}`)
	f.write(`{"jsonrpc":"2.0","id":1.0,"result":{"sessionId":"s"}}` + "\n" + `{"jsonrpc":"2.0","id":0,"result":{}}` + "\n")
	f.wantResult(a, `{}`)
	f.wantResult(b, `{"sessionId":"s"}`)
}

func TestProgram_ReadsSplitAndJoinedLines(t *testing.T) {
	f := newFar(t, ProgramOptions{})
	var calls []*Pending
	var all strings.Builder
	for i := range 20 {
		calls = append(calls, f.send("x", `{}`))
		f.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"x","params":{}}`, i))
		fmt.Fprintf(&all, "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{}}\n\n{\"id\":%d,\"result\":{\"n\":%d}}\n", i, i)
	}
	for rest, n := all.String(), 1; rest != ""; n = n%37 + 1 {
		n = min(n, len(rest))
		f.write(rest[:n])
		rest = rest[n:]
	}
	for i, c := range calls {
		f.wantResult(c, fmt.Sprintf(`{"n":%d}`, i))
	}
}

func TestProgram_CopiesResultFromBuffer(t *testing.T) {
	f := newFar(t, ProgramOptions{})
	c := f.send("x", `{}`)
	b := []byte(`{"id":0,"result":{"a":1}}` + "\n")
	if _, err := f.Out().Write(b); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = '!'
	}
	f.wantResult(c, `{"a":1}`)
}

func TestProgram_KeepsCodeMessageAndDataOfErrors(t *testing.T) {
	for _, tt := range []struct{ line, want, data string }{
		{`{"id":0,"error":{"code":-32000,"message":"log in","data":{"a":[1]}}}`, "jsonrpc error -32000: log in", `{"a":[1]}`},
		{`{"id":0,"error":{"code":7,"message":"x"},"result":{}}`, "jsonrpc error 7: x", ""},
		{`{"id":0,"error":"no object"}`, "jsonrpc error -32603: the agent gave no reason", ""},
		{`{"id":0,"error":{"code":1e400,"message":5}}`, "jsonrpc error -32603: the agent gave no reason", ""},
	} {
		f := newFar(t, ProgramOptions{})
		c := f.send("x", `{}`)
		f.write(tt.line + "\n")
		_, err := c.Wait(t.Context())
		var jerr *jsonrpc.Error
		if !errors.As(err, &jerr) || jerr.Error() != tt.want || string(jerr.Data) != tt.data {
			t.Errorf("%s: got %v, want %s and data %s", tt.line, err, tt.want, tt.data)
		}
	}
}

func TestProgram_DropsUnknownAnswers(t *testing.T) {
	f := newFar(t, ProgramOptions{})
	c := f.send("x", `{}`)
	f.write(`{"id":7,"result":{}}` + "\n" + `{"id":"0","result":{}}` + "\n" + `{"id":null,"error":{"code":1,"message":"?"}}` + "\n" +
		`{"error":{"code":1,"message":"?"}}` + "\n" + `{"id":0,"id":0,"result":{}}` + "\n" + "no JSON\n" + `[{"id":0,"result":{}}]` + "\n")
	f.write(`{"id":0,"result":1}` + "\n" + `{"id":0,"result":2}` + "\n")
	f.wantResult(c, `1`)
}

func TestProgram_RefusesRequestsExceptQuestions(t *testing.T) {
	f := newFar(t, ProgramOptions{})
	f.write(`{"id":1,"method":"session/request_permission","params":{}}` + "\n" +
		`{"id":2,"method":"elicitation/create","params":{}}` + "\n" +
		`{"id":"three","method":"fs/read_text_file","params":{}}` + "\n" +
		`{"method":"_x/notification","params":{}}` + "\n" +
		`{"id":null,"method":"mcp/message"}` + "\n")
	f.want(`{"jsonrpc":"2.0","id":"three","error":{"code":-32601,"message":"no handler answers fs/read_text_file"}}`)
	f.want(`{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no handler answers mcp/message"}}`)
}

func TestProgram_CancelsAbandonedCallsExceptPrompts(t *testing.T) {
	f := newFar(t, ProgramOptions{})
	for i, method := range []string{"session/prompt", "session/load"} {
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := f.Call(ctx, method, []byte(`{}`))
			failed <- err
		}()
		f.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"%s","params":{}}`, i, method))
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want the context's error", method, err)
		}
	}
	f.want(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`)
	f.write(`{"id":1,"result":{}}` + "\n" + `{"id":0,"result":{}}` + "\n") // dropped
	c := f.send("x", `{}`)
	f.write(`{"id":2,"result":3}` + "\n")
	f.wantResult(c, `3`)
}

func TestProgram_CloseFailsCallsAndEndsStreams(t *testing.T) {
	f := newFar(t, ProgramOptions{Wait: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
	calls := []*Pending{f.send("a", `{}`), f.send("b", `{}`)}
	var writing sync.WaitGroup
	writing.Go(func() { _, _ = io.WriteString(f.Out(), `{"id":0,"result":{}}`+"\n") }) // it waits until the close
	f.wantResult(calls[0], `{}`)
	f.Close()
	f.Close()
	writing.Wait()
	if _, err := calls[1].Wait(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("a call under way: got %v", err)
	}
	if _, err := f.Call(t.Context(), "c", nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a new call: got %v", err)
	}
	if err := f.Notify("d", nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a notification: got %v", err)
	}
	if _, err := f.Out().Write([]byte("{}\n")); !errors.Is(err, ErrClosed) {
		t.Errorf("a write: got %v", err)
	}
	if b, err := io.ReadAll(f.In()); len(b) != 0 || err != nil {
		t.Errorf("a read: got %q, %v, want the end", b, err)
	}
}

func TestProgram_BackpressureDoesNotDelayAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := make(chan struct{})
		f := newFar(t, ProgramOptions{Wait: func(ctx context.Context) error {
			select {
			case <-room:
			case <-ctx.Done():
			}
			return ctx.Err()
		}})
		c := f.send("x", `{}`)
		written := make(chan struct{})
		go func() {
			defer close(written)
			_, _ = io.WriteString(f.Out(), `{"method":"session/update"}`+"\n"+`{"id":0,"result":1}`+"\n")
		}()
		f.wantResult(c, `1`)
		synctest.Wait()
		select {
		case <-written:
			t.Error("the write did not wait for room")
		default:
		}
		if err := f.Notify("session/cancel", nil); err != nil {
			t.Errorf("a notification meanwhile: %v", err)
		}
		close(room)
		<-written
	})
}

func TestProgram_WriteToStuckAgentTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFar(t, ProgramOptions{})
		f.out.limit = 100
		f.send("x", `{"text":"`+strings.Repeat("x", 200)+`"}`) // an empty queue takes any
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := f.Call(ctx, "y", []byte(`{}`))
			failed <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("a call: got %v", err)
		}
		if err := f.Notify("z", nil); !errors.Is(err, errDeaf) {
			t.Errorf("a notification: got %v", err)
		}
		if _, err := f.Out().Write([]byte(`{"id":1,"method":"q"}` + "\n")); !errors.Is(err, errDeaf) {
			t.Errorf("a write that wants an answer: got %v", err)
		}
		sent := make(chan error)
		go func() {
			_, err := f.Send(t.Context(), "w", []byte(`{}`))
			sent <- err
		}()
		synctest.Wait()
		if _, err := f.in.ReadString('\n'); err != nil { // makes room
			t.Fatal(err)
		}
		if err := <-sent; err != nil {
			t.Errorf("a call once there is room: %v", err)
		}
		f.want(`{"jsonrpc":"2.0","id":2,"method":"w","params":{}}`) // y was never sent
	})
}

func TestProgram_LimitsOpenCalls(t *testing.T) {
	f := newFar(t, ProgramOptions{})
	go func() { _, _ = io.Copy(io.Discard, f.In()) }()
	for range maxOpen {
		f.send("x", `{}`).Abandon()
	}
	if _, err := f.Send(t.Context(), "x", nil); !errors.Is(err, ErrUnanswered) {
		t.Fatalf("got %v", err)
	}
	f.write(`{"id":5,"result":{}}` + "\n")
	f.send("x", `{}`)
}

func TestProgram_DropsTooLongLines(t *testing.T) {
	f := newFar(t, ProgramOptions{})
	f.max = 1000
	c := f.send("x", `{}`)
	piece := strings.Repeat("x", 300)
	for range 4 {
		f.write(piece)
	}
	if len(f.partial) != 0 {
		t.Errorf("%d bytes of it are kept", len(f.partial))
	}
	f.write("x\n" + `{"id":0,"result":1}` + "\n")
	f.wantResult(c, `1`)
}

func FuzzProgram_CallGetsItsOwnAnswer(f *testing.F) {
	f.Add([]byte("{\"id\":0}\n{\"id\":1,\"method\":\"a\"}\n"), uint8(3))
	f.Add([]byte("{\"id\":null,\"error\":{}}\n\n[]\n\xff"), uint8(1))
	f.Add([]byte(`{"id":0,"error":{"code":"x","message":{}}}`+"\n"), uint8(200))
	f.Fuzz(func(t *testing.T, b []byte, size uint8) {
		p := NewProgram(ProgramOptions{})
		defer p.Close()
		for range 100 {
			if _, err := p.Send(t.Context(), "x", nil); err != nil {
				t.Fatal(err)
			}
		}
		last, err := p.Send(t.Context(), "x", nil)
		if err != nil {
			t.Fatal(err)
		}
		for rest := b; len(rest) > 0; {
			n := min(int(size)+1, len(rest))
			if _, err := p.Out().Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if _, err := p.Out().Write([]byte("\n" + `{"id":100,"result":"mine"}` + "\n")); err != nil {
			t.Fatal(err)
		}
		select {
		case <-last.done: // by this answer, or by one that the fuzzer found
		default:
			t.Error("the call was not answered")
		}
	})
}

func TestProgram_RejectsInvalidParams(t *testing.T) {
	f := newFar(t, ProgramOptions{})
	for _, params := range []string{`{"a":`, `{"sessionId":"s","sessionId":"t"}`} {
		if _, err := f.Call(t.Context(), "session/prompt", []byte(params)); err == nil || !strings.Contains(err.Error(), "cannot be sent") {
			t.Errorf("%s: %v", params, err)
		}
	}
	c := f.send("session/list", `{}`)
	f.want(`{"jsonrpc":"2.0","id":2,"method":"session/list","params":{}}`)
	f.write(`{"jsonrpc":"2.0","id":2,"result":{}}` + "\n")
	f.wantResult(c, `{}`)
}

func TestProgram_UsesOlderMethodNamesOfAgent(t *testing.T) {
	f := newFar(t, ProgramOptions{})
	hello := f.send("initialize", `{}`)
	f.want(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`)
	f.write(`{"jsonrpc":"2.0","id":0,"result":{}}` + "\n")
	f.wantResult(hello, `{}`)
	opened := f.send("session/new", `{"cwd":"/w"}`)
	f.want(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w"}}`)
	f.write(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"what?"}}` + "\n")
	f.want(`{"jsonrpc":"2.0","id":2,"method":"newSession","params":{"cwd":"/w"}}`)
	f.write(`{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}` + "\n")
	f.wantResult(opened, `{"sessionId":"s"}`)
	turn := f.send("session/prompt", `{"sessionId":"s"}`)
	f.want(`{"jsonrpc":"2.0","id":3,"method":"prompt","params":{"sessionId":"s"}}`)
	if err := f.Notify("session/cancel", []byte(`{"sessionId":"s"}`)); err != nil {
		t.Fatal(err)
	}
	f.want(`{"jsonrpc":"2.0","method":"cancel","params":{"sessionId":"s"}}`)
	f.write(`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}` + "\n")
	f.wantResult(turn, `{"stopReason":"cancelled"}`)
}

func TestProgram_TriesOlderMethodNameOnce(t *testing.T) {
	f := newFar(t, ProgramOptions{})
	opened := f.send("session/new", `{}`)
	f.want(`{"jsonrpc":"2.0","id":0,"method":"session/new","params":{}}`)
	f.write(`{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"first"}}` + "\n")
	f.want(`{"jsonrpc":"2.0","id":1,"method":"newSession","params":{}}`)
	f.write(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"second"}}` + "\n")
	if _, err := opened.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "second") {
		t.Errorf("the error is %v", err)
	}
	again := f.send("session/new", `{}`) // it may log in meanwhile
	f.want(`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{}}`)
	f.write(`{"jsonrpc":"2.0","id":2,"result":{}}` + "\n")
	f.wantResult(again, `{}`)
	mode := f.send("session/set_mode", `{}`)
	f.want(`{"jsonrpc":"2.0","id":3,"method":"session/set_mode","params":{}}`)
	f.write(`{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"no modes"}}` + "\n")
	if _, err := mode.Wait(t.Context()); err == nil {
		t.Error("a mode was set")
	}
}

func TestProgram_NotificationEndsTurn(t *testing.T) {
	f := newFar(t, ProgramOptions{})
	for _, session := range []string{`"sessionId":"s",`, ``} {
		turn, other := f.send("session/prompt", `{"sessionId":"s"}`), f.send("session/set_mode", `{"sessionId":"s"}`)
		f.write(`{"jsonrpc":"2.0","method":"session/end_turn","params":{"sessionId":"other"}}` + "\n")
		f.write(`{"jsonrpc":"2.0","method":"session/end_turn","params":{` + session + `"reason":"complete"}}` + "\n")
		f.wantResult(turn, `{"stopReason":"end_turn"}`)
		f.write(`{"jsonrpc":"2.0","id":` + turn.id + `,"result":{"stopReason":"late"}}` + "\n")
		f.write(`{"jsonrpc":"2.0","id":` + other.id + `,"result":{}}` + "\n")
		f.wantResult(other, `{}`)
	}
	turn := f.send("session/prompt", `{"sessionId":"s"}`)
	f.write(`{"jsonrpc":"2.0","method":"endTurn","params":{"sessionId":"s","reason":"error","error":"full"}}` + "\n")
	if _, err := turn.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("the error is %v", err)
	}
}
