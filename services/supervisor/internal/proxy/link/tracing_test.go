package link

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/testkit"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/span"
)

// tracer records spans. Its span number N has the id N, and begins the trace N.
type tracer struct {
	mu    sync.Mutex
	spans []*told // guarded by mu
	ended chan string
}

type told struct {
	*tracer
	span.Start
	context    span.Context
	attributes map[string]string // guarded by mu, as is all that follows
	ends       int
	failure    string
}

func newTracer() *tracer { return &tracer{ended: make(chan string, 2*maxTurns)} }

func (t *tracer) Start(s span.Start) span.Recorder {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := &told{tracer: t, Start: s, attributes: map[string]string{}}
	n := uint64(len(t.spans) + 1)
	x.context.Sampled, x.context.TraceID = true, s.Parent.TraceID
	if !s.Parent.Valid() {
		binary.BigEndian.PutUint64(x.context.TraceID[8:], n)
	}
	binary.BigEndian.PutUint64(x.context.SpanID[:], n)
	t.spans = append(t.spans, x)
	return x
}

func (x *told) Context() span.Context { return x.context }

func (x *told) Set(key, value string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.attributes[key] = value
}

func (x *told) End(failure string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ends++; x.ends == 1 {
		x.failure = failure
		x.tracer.ended <- x.Name
	}
}

// wait waits until a span with a name has ended.
func (t *tracer) wait(tb testing.TB, name string) {
	tb.Helper()
	late := testkit.After()
	for {
		select {
		case got := <-t.ended:
			if got == name {
				return
			}
		case <-late:
			tb.Fatalf("no span %s ended; there are\n%s", name, t.tree(tb))
		}
	}
}

// tree draws the spans that ended, each below its parent.
func (t *tracer) tree(tb testing.TB, keys ...string) string {
	tb.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	var draw func(below span.Context, indent string)
	draw = func(below span.Context, indent string) {
		for _, x := range t.spans {
			if x.Parent.SpanID != below.SpanID {
				continue
			}
			if x.ends == 0 {
				tb.Errorf("the span %s has not ended", x.Name)
			}
			b.WriteString(indent + x.Name)
			for _, key := range keys {
				if x.attributes[key] != "" {
					b.WriteString(" " + x.attributes[key])
				}
			}
			if x.failure != "" {
				b.WriteString(" !" + x.failure)
			}
			b.WriteString("\n")
			draw(x.context, indent+"  ")
		}
	}
	draw(span.Context{}, "")
	return b.String()
}

func expectTree(t *testing.T, got string, lines ...string) {
	t.Helper()
	if want := strings.Join(lines, "\n") + "\n"; got != want {
		t.Errorf("the spans are\n%swant\n%s", got, want)
	}
}

func (t *tracer) on(o *Options) { o.Tracer = t }

const promptCall = `{"jsonrpc":"2.0","id":%q,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`

// prompt begins a turn.
func (r *rig) prompt(id string) {
	r.t.Helper()
	r.client.send(fmt.Sprintf(promptCall, id))
	r.agent.next()
}

// answer answers a prompt.
func (r *rig) answer(id, result string) {
	r.t.Helper()
	r.agent.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":%s}`, id, result))
	r.client.next()
}

// until reads lines up to one that contains a text, which it returns.
func (p *peer) until(text string) string {
	p.t.Helper()
	for {
		if line := p.next(); strings.Contains(line, text) {
			return line
		}
	}
}

// traceparentOf returns the trace context of a gRPC call.
func traceparentOf(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	return strings.Join(md.Get("traceparent"), ",")
}

func TestTracing_HandlersAndPoliciesGetContext(t *testing.T) {
	tr := newTracer()
	r := gatedRig(t, tr.on)
	came := make(chan string, 2)
	r.handler.decide = func(ctx context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		came <- traceparentOf(ctx)
		return answer(permissionv1.Verdict_VERDICT_ALLOW)(ctx, a)
	}
	r.handler.write = func(ctx context.Context, _ *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
		came <- traceparentOf(ctx)
		return nil, status.Error(codes.NotFound, "no such folder")
	}
	r.open(`{}`)
	r.prompt("p")
	r.agent.send(fmt.Sprintf(writeCall, 1, 1))
	r.agent.wantError("1", -32002, "")
	r.answer("p", `{"stopReason":"end_turn"}`)
	tr.wait(t, "session/prompt")
	expectTree(t, tr.tree(t, "rpc.response.status_code", "acphost.decision.verdict", "acphost.turn.stop_reason"),
		"session/prompt end_turn",
		"  fs/write_text_file -32002 !-32002",
		"    acphost.decide allow",
		"    acphost.fs.v1.FileSystemService/WriteTextFile NOT_FOUND !NOT_FOUND",
	)
	for _, n := range []int{3, 4} {
		if got, want := <-came, fmt.Sprintf("00-%032x-%016x-01", 1, n); got != want {
			t.Errorf("came %q, want %q", got, want)
		}
	}
}

// Every end of a request ends its span, with the failure.
func TestTracing_SpanEndsWithRequest(t *testing.T) {
	tr := newTracer()
	r := gatedRig(t, tr.on)
	verdict := permissionv1.Verdict_VERDICT_ASK
	r.handler.decide = func(ctx context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		return answer(verdict)(ctx, a)
	}
	r.open(`{}`)
	r.prompt("p")

	// A person refuses a call.
	r.agent.send(fmt.Sprintf(writeCall, 1, 1))
	q := parse(t, r.client.until(`"session/request_permission"`))
	r.client.send(choose(q.ID, "reject_once"))
	r.agent.wantError("1", -32603, "rejected")

	// The agent gives a call up while a person is asked.
	r.agent.send(fmt.Sprintf(writeCall, 2, 2))
	r.client.until(`"session/request_permission"`)
	r.agent.send(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}`)
	r.agent.wantError("2", -32800, "")

	// The client answers a question of the agent's, with an error.
	r.agent.send(strings.Replace(askedEdit, `"id":7`, `"id":3`, 1))
	r.client.until(`"session/request_permission"`)
	r.client.send(`{"jsonrpc":"2.0","id":3,"error":{"code":-32000,"message":"no"}}`)
	r.agent.until(`"id":3`)
	tr.wait(t, "session/request_permission")

	// The client answers an unknown method.
	r.agent.send(`{"jsonrpc":"2.0","id":4,"method":"_secret/text-of-the-agent","params":{}}`)
	r.client.until(`"id":4`)
	r.client.send(`{"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"no"}}`)
	r.agent.until(`"id":4`)
	tr.wait(t, "_OTHER")

	// The agent ends during a turn, with an id that is used twice.
	r.agent.send(`{"jsonrpc":"2.0","id":5,"method":"_x/5","params":{"sessionId":"s"}}`, `{"jsonrpc":"2.0","id":5,"method":"_y/5","params":{"sessionId":"s"}}`)
	_ = r.agent.in.Close()
	r.end()
	got := tr.tree(t, "rpc.response.status_code", "acphost.question.outcome", "acphost.turn.stop_reason")
	for _, line := range []string{
		"session/prompt !link_over\n",
		"  fs/write_text_file -32603 !-32603\n    acphost.decide\n    acphost.question denied\n",
		"  fs/write_text_file -32800 !-32800\n    acphost.decide\n    acphost.question withdrawn\n",
		"  session/request_permission !error\n    acphost.decide\n    acphost.question cancelled\n",
		"\n_OTHER -32601 !-32601\n",
		"  _OTHER -32600 !-32600\n",
	} {
		if !strings.Contains(got, line) {
			t.Errorf("there is no\n%sin\n%s", line, got)
		}
	}
	if strings.Contains(got, "secret") {
		t.Errorf("the agent's text is a name:\n%s", got)
	}
}

func TestTracing_SpanEndsWithTurn(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(r *rig)
		want string
	}{
		{"with the answer", func(r *rig) { r.answer("p", `{"stopReason":"max_tokens"}`) }, "session/prompt max_tokens"},
		{"with an answer that the agent made up", func(r *rig) { r.answer("p", `{"stopReason":"secret"}`) }, "session/prompt"},
		{"with an error", func(r *rig) {
			r.agent.send(`{"jsonrpc":"2.0","id":"p","error":{"code":-32603,"message":"secret"}}`)
			r.client.next()
		}, "session/prompt !error"},
		{"when its session is idle, in version 2", func(r *rig) {
			r.answer("p", `{"messageId":"m"}`)
			r.agent.send(`{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"refusal"}}}`)
			r.client.next()
		}, "session/prompt refusal"},
		{"when the agent says so", func(r *rig) {
			r.agent.send(`{"jsonrpc":"2.0","method":"session/end_turn","params":{"sessionId":"s","stopReason":"cancelled"}}`)
			r.client.next()
		}, "session/prompt cancelled"},
		{"when its session is closed", func(r *rig) {
			r.client.send(`{"jsonrpc":"2.0","id":"c","method":"session/close","params":{"sessionId":"s"}}`)
			r.agent.next()
			r.answer("c", `{}`)
		}, "session/prompt !session_closed"},
		{"when its session is forgotten", func(r *rig) { r.Forget("s") }, "session/prompt !session_closed"},
		{"when the client goes", func(r *rig) {
			_ = r.client.in.Close()
			r.end()
		}, "session/prompt !link_over"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := newTracer()
			r := newRig(t, tr.on)
			r.open(`{}`)
			r.prompt("p")
			c.play(r)
			tr.wait(t, "session/prompt")
			expectTree(t, tr.tree(t, "acphost.turn.stop_reason"), c.want)
		})
	}
}

// An agent that calls without end outside of any turn, or a client that prompts without end, cannot make acphost keep more spans.
func TestTracing_LimitsTurns(t *testing.T) {
	tr := newTracer()
	r := newRig(t, tr.on)
	r.open(`{}`)
	const many = maxTurns + 100
	for i := range many {
		r.prompt(fmt.Sprint("p", i))
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.spans) != maxTurns {
		t.Errorf("%d spans of %d turns were made, want %d", len(tr.spans), many, maxTurns)
	}
}

func TestTracing_OmitsInvalidSessionID(t *testing.T) {
	for id, want := range map[string]string{
		"sess_0aF-9.:": "sess_0aF-9.:", "my secret": "", "a\nb": "", "é": "", strings.Repeat("a", 129): "",
	} {
		if got := traced(id); got != want {
			t.Errorf("%q: got %q, want %q", id, got, want)
		}
	}
}
