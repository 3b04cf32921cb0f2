package programs

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/link"
)

// panicOnRead panics when it is read.
type panicOnRead struct{}

func (panicOnRead) Read([]byte) (int, error) { panic("injected") }

// panicOnWrite panics when it is written to.
type panicOnWrite struct{}

func (panicOnWrite) Write([]byte) (int, error) { panic("injected") }

// reasonPanics is a Process that panics when it is asked for the first time why its link ended.
type reasonPanics struct {
	Process
	panicked *atomic.Bool
}

func (p reasonPanics) Reason() (link.Reason, error) {
	if p.panicked.CompareAndSwap(false, true) {
		panic("injected")
	}
	return p.Process.Reason()
}

// caught calls f, and returns a panic of f as an error, as the servers of calls do.
func caught(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// secondAgent is the command of the agent at which tests inject panics.
const secondAgent = "/opt/second"

func asSecond(r *supervisorv1.StartAgentRequest) { r.Command = []string{secondAgent} }

// starter is Options.Start.
type starter = func(ctx context.Context, s Spec) (Process, error)

func TestRegistry_PanicEndsOneAgentOrCall(t *testing.T) {
	var panicked atomic.Bool
	for name, c := range map[string]struct {
		start  func(usual starter, ctx context.Context, s Spec) (Process, error) // nil: the usual one
		inject func(t *testing.T, r *rig)
	}{
		"start of an agent": {
			start: func(usual starter, ctx context.Context, s Spec) (Process, error) {
				if s.Command[0] == secondAgent {
					panic("injected")
				}
				return usual(ctx, s)
			},
			inject: func(t *testing.T, r *rig) {
				_, err := r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Command: []string{secondAgent}})
				wantFault(t, err, fault.OfAgent, noKind, "internal error", "was stopped")
			},
		},
		"end of an agent": {
			start: func(usual starter, ctx context.Context, s Spec) (Process, error) {
				p, err := usual(ctx, s)
				if err == nil && s.Command[0] == secondAgent {
					p = reasonPanics{p, &panicked}
				}
				return p, err
			},
			inject: func(t *testing.T, r *rig) {
				a, broken := r.start(asSecond)
				broken.crash()
				shown := r.until(a.GetId(), failed, 0)
				if got := shown.GetError().GetMessage(); !strings.Contains(got, "internal error") {
					t.Errorf("the agent's error is %q", got)
				}
				if _, err := r.RestartAgent(t.Context(), a.GetId()); err != nil {
					t.Errorf("the agent cannot be restarted: %v", err)
				}
				r.latest()
			},
		},
		"reader of a client elsewhere": {
			inject: func(t *testing.T, r *rig) {
				err := r.OpenAgent(t.Context(), &supervisorv1.GatewayOpen{Agent: "bot"}, panicOnRead{}, io.Discard, func(*supervisorv1.Agent) error { return nil })
				if err == nil {
					t.Error("the agent ended without an error")
				}
				wantEnded(t, r.latest())
			},
		},
		"writer of a client elsewhere": {
			inject: func(t *testing.T, r *rig) {
				in, client := io.Pipe()
				defer func() { _ = in.Close() }()
				go func() {
					_, _ = io.WriteString(client, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`+"\n")
				}()
				err := r.OpenAgent(t.Context(), &supervisorv1.GatewayOpen{Agent: "bot"}, in, panicOnWrite{}, func(*supervisorv1.Agent) error { return nil })
				if err == nil {
					t.Error("the agent ended without an error")
				}
				wantEnded(t, r.latest())
			},
		},
		"client elsewhere that receives its agent's state": {
			inject: func(t *testing.T, r *rig) {
				in, client := io.Pipe()
				defer func() { _ = client.Close() }()
				err := caught(func() error {
					return r.OpenAgent(t.Context(), &supervisorv1.GatewayOpen{Agent: "bot"}, in, io.Discard, func(*supervisorv1.Agent) error { panic("injected") })
				})
				if err == nil {
					t.Error("the panic is lost")
				}
				wantEnded(t, r.latest())
			},
		},
		"events of a turn": {
			inject: func(t *testing.T, r *rig) {
				a, _ := r.start(asSecond)
				s := r.open(a.GetId())
				err := caught(func() error {
					return r.Prompt(t.Context(), promptOf(s.GetSessionId(), "x"), func(*supervisorv1.Event) error { panic("injected") })
				})
				if err == nil {
					t.Error("the panic is lost")
				}
				testkit.Eventually(t, "another turn of the session", func() bool {
					events, err := r.prompt(s.GetSessionId(), "again")
					return err == nil && strings.Contains(strings.Join(events, ","), "ended end_turn")
				})
			},
		},
		"login": {
			inject: func(t *testing.T, r *rig) {
				a, bot := r.start(asSecond)
				bot.parts["authenticate"] = answer(`{"url":"https://page.example"}`)
				err := r.Authenticate(t.Context(), &supervisorv1.AuthenticateRequest{AgentId: a.GetId(), MethodId: "web"},
					func(*supervisorv1.AuthenticateResponse) error { panic("injected") })
				if err == nil || !strings.Contains(err.Error(), "internal error") {
					t.Errorf("the login ended with %v", err)
				}
				bot.parts["authenticate"] = answer(`{}`)
				err = r.Authenticate(t.Context(), &supervisorv1.AuthenticateRequest{AgentId: a.GetId(), MethodId: "web"},
					func(*supervisorv1.AuthenticateResponse) error { return nil })
				if err != nil {
					t.Errorf("the next login: %v", err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ask := make(chan message, 1)
			r := newRig(t, nil, withBot, func(o *Options) {
				if usual := o.Start; c.start != nil {
					o.Start = func(ctx context.Context, s Spec) (Process, error) { return c.start(usual, ctx, s) }
				}
			})
			r.cast = func(n int, _ Spec) (map[string]part, error) {
				if n == 1 {
					return map[string]part{"session/prompt": func(_ *scripted, m message) { ask <- m }}, nil
				}
				return map[string]part{"session/new": answer(`{"sessionId":"t1"}`)}, nil
			}
			other, bot := r.start()
			session := r.open(other.GetId())
			type result struct {
				events []string
				err    error
			}
			turn := make(chan result, 1)
			go func() {
				events, err := r.prompt(session.GetSessionId(), "work")
				turn <- result{events, err}
			}()
			var prompt message
			select {
			case prompt = <-ask:
			case <-testkit.After():
				t.Fatal("the other agent got no prompt")
			}

			c.inject(t, r)

			bot.chunk(session.GetSessionId(), "done")
			bot.answer(prompt, `{"stopReason":"end_turn"}`)
			select {
			case got := <-turn:
				if got.err != nil {
					t.Errorf("the other session's turn: %v", got.err)
				}
				wantWords(t, got.events, "started", "says done", "ended end_turn")
			case <-testkit.After():
				t.Fatal("the other session's turn does not end")
			}
		})
	}
}

// wantEnded checks that an agent has ended.
func wantEnded(t *testing.T, a *scripted) {
	t.Helper()
	select {
	case <-a.ended:
	default:
		t.Error("the agent's process is left")
	}
}
