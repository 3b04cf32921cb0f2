package question

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

// panicking is a world that panics in one of its methods.
type panicking struct {
	*world
	at string
}

func (p *panicking) may(at string) {
	if p.at == at {
		p.at = ""
		panic("injected")
	}
}

func (p *panicking) Asked(q *Question)        { p.may("asked"); p.world.Asked(q) }
func (p *panicking) Ended(q *Question, e End) { p.world.Ended(q, e); p.may("ended") }
func (p *panicking) Reply(r Reply)            { p.may("reply"); p.world.Reply(r) }

func (p *panicking) Record(d *gate.Decision, o gate.Outcome, answered bool) error {
	p.may("record")
	return p.world.Record(d, o, answered)
}

func (p *panicking) Withdraw(r Reply, write func([]byte)) {
	p.may("withdraw")
	p.world.Withdraw(r, write)
}

func TestQuestion_PanicEndsOneQuestion(t *testing.T) {
	for _, at := range []string{"asked", "shown", "record", "ended", "withdraw", "reply"} {
		for name, kind := range map[string]byte{"agent's": 0, "own": ownQuestion} {
			t.Run(at+"/"+name, func(t *testing.T) {
				w := newWorld(t, kind)
				p := &panicking{w, at}
				w.set.opts.Observer, w.set.opts.Logger = p, slog.New(slog.NewTextHandler(io.Discard, nil))
				other := w.set.Add(&Question{ID: []byte("8"), Method: w.q.Method, Options: w.q.Options, Params: []byte("{}"), Own: w.q.Own}, w)
				q := w.set.Add(w.q, p)
				q.Decided(&gate.Decision{Verdict: gate.Ask, Unattended: gate.Deny})
				err := q.Ask(func(show func(func()) bool) error {
					if !show(func() { p.may("shown") }) {
						return ErrEnded
					}
					return nil
				})
				if err != nil {
					t.Errorf("the question could not be asked: %v", err)
				}
				answered := make(chan struct{})
				go func() {
					defer close(answered)
					_, _ = q.Answer(Answer{Option: "yes"}, "somebody")
				}()
				for _, c := range []<-chan struct{}{answered, q.Done()} {
					select {
					case <-c:
					case <-testkit.After():
						t.Fatal("the question does not end")
					}
				}
				if q.End().Outcome != Denied {
					t.Errorf("the question is %s, want denied", q.End().Outcome)
				}
				var last *Reply
				ends := 0
				for _, e := range w.log {
					switch e.what {
					case "reply":
						last = &e.reply
					case "ended":
						ends++
					}
				}
				if last == nil || last.Error == nil || !strings.Contains(last.Error.Message, "internal error") || !last.Failed {
					t.Errorf("the asker got %+v, want an internal error", last)
				}
				if ends != 1 || w.waiting.Load() != 0 || w.set.open != 0 {
					t.Errorf("observers were told of %d ends, %d questions wait, %d take room", ends, w.waiting.Load(), w.set.open)
				}

				if err := other.Ask(func(show func(func()) bool) error { show(func() {}); return nil }); err != nil {
					t.Fatal(err)
				}
				if end, err := other.Answer(Answer{Option: "yes"}, "somebody"); err != nil || end.Outcome != Allowed {
					t.Errorf("another question: %v, %v", end, err)
				}
			})
		}
	}
}
