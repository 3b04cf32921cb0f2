package link

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
)

func TestQueue_ContinuesAfterPanic(t *testing.T) {
	for _, waits := range []bool{false, true} {
		q := newQueue(t.Context(), Limits{MaxWorkers: 1, MaxQueued: 1}, &proc.Pace{})
		q.log = slog.New(slog.DiscardHandler)
		failed := make(chan *agentCall, 1)
		q.panicked = func(c *agentCall, err error) {
			if _, ok := errors.AsType[*panics.Error](err); !ok {
				t.Errorf("got %v, want a *panics.Error", err)
			}
			failed <- c
		}
		call := &agentCall{id: []byte("1")}
		if !q.add(job{call: call, waits: waits, run: func(context.Context) { panic("injected") }}) {
			t.Fatal("the job was not taken")
		}
		select {
		case got := <-failed:
			if got != call {
				t.Errorf("the wrong call failed: %v", got)
			}
		case <-testkit.After():
			t.Fatal("the panic was not reported")
		}
		done := make(chan struct{})
		testkit.Eventually(t, "room for another job", func() bool {
			return q.add(job{waits: waits, run: func(context.Context) { close(done) }})
		})
		q.wait()
		select {
		case <-done:
		default:
			t.Error("the job after the panic was not done")
		}
	}
}

// panickingReader panics at every read.
type panickingReader struct{}

// Read implements io.Reader.
func (panickingReader) Read([]byte) (int, error) { panic("injected") }

func TestPanics_EndOneCallOrOneLink(t *testing.T) {
	t.Run("worker", func(t *testing.T) {
		var armed atomic.Bool
		r := newRig(t, func(o *Options) {
			conn := o.Conn
			o.Conn = func(name string) (grpc.ClientConnInterface, error) {
				if armed.CompareAndSwap(true, false) {
					panic("injected")
				}
				return conn(name)
			}
		})
		r.open(`{}`)
		armed.Store(true)
		r.agent.send(`{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/a"}}`)
		r.agent.wantError("1", -32603, "internal error")
		r.agent.send(`{"jsonrpc":"2.0","id":2,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/a"}}`)
		r.agent.want(`{"jsonrpc":"2.0","id":2,"result":{"content":"text"}}`)
	})
	for name, change := range map[string]func(*Options){
		"agent pump":  func(o *Options) { o.Agent = pipes{panickingReader{}, o.Agent.Stdin()} },
		"client pump": func(o *Options) { o.Client.In = panickingReader{} },
	} {
		t.Run(name, func(t *testing.T) {
			other := newRig(t)
			newRig(t, change).end()
			other.open(`{}`)
			other.agent.send(`{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"sessionId":"s","path":"/w/a"}}`)
			other.agent.want(`{"jsonrpc":"2.0","id":1,"result":{"content":"text"}}`)
		})
	}
}
