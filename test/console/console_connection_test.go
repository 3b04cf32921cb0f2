package console_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

// cable is a connection to a gateway that can be cut, and that can delay the gateway's output.
type cable struct {
	t       *testing.T
	l       net.Listener
	to      string
	wg      sync.WaitGroup
	mu      sync.Mutex // guards what follows
	moved   *sync.Cond // something came, or may go on
	cut     bool
	until   string // what must come from the gateway before all of it goes on; empty: all goes on
	through map[net.Conn]bool
}

func newCable(t *testing.T, to string) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{t: t, l: l, to: to, through: map[net.Conn]bool{}}
	c.moved = sync.NewCond(&c.mu)
	c.wg.Go(c.accept)
	t.Cleanup(func() { _ = l.Close(); c.set(true); c.wg.Wait() })
	return c
}

func (c *cable) accept() {
	for {
		near, err := c.l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", c.to)
		c.mu.Lock()
		if c.cut || err != nil {
			c.mu.Unlock()
			_ = near.Close()
			if err == nil {
				_ = far.Close()
			}
			continue
		}
		c.through[near], c.through[far] = true, true
		c.mu.Unlock()
		c.wg.Go(func() {
			_, _ = io.Copy(far, near)
			_, _ = near.Close(), far.Close()
		})
		c.answers(near, far)
	}
}

// answers forwards the gateway's output to a browser.
func (c *cable) answers(near, far net.Conn) {
	var kept []byte // and over: guarded by mu
	over := false
	c.wg.Go(func() {
		b := make([]byte, 64<<10)
		for ended := false; !ended; {
			n, err := far.Read(b)
			ended = err != nil
			c.mu.Lock()
			kept, over = append(kept, b[:n]...), ended
			if c.until != "" && bytes.Contains(kept, []byte(c.until)) {
				c.until = ""
			}
			c.moved.Broadcast()
			c.mu.Unlock()
		}
	})
	c.wg.Go(func() {
		for ended := false; !ended; {
			c.mu.Lock()
			for !over && (c.until != "" || len(kept) == 0) {
				c.moved.Wait()
			}
			b := kept
			kept, ended = nil, over
			c.mu.Unlock()
			if _, err := near.Write(b); err != nil {
				break
			}
		}
		_, _ = near.Close(), far.Close()
	})
}

// hold delays the gateway's output until it contains words; then it forwards all of it at once.
func (c *cable) hold(words string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = words
}

// set cuts the line, or mends it.
func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	if cut {
		c.until = ""
		c.moved.Broadcast()
		for conn := range c.through {
			_ = conn.Close()
		}
		clear(c.through)
	}
}

func TestConnection_Reconnects(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	p := e2e.NewPlace(t)
	g := e2e.NewConsole(t, p)
	agent := g.Start(p.Demo())
	s := g.Open(agent.GetId())
	line := newCable(t, g.At)
	tab := b.open("http://"+line.l.Addr().String()+"/console/"+e2e.SessionAt(s), desktopWidth, desktopHeight)
	tab.signIn(g.Token("operator"))
	first := g.Prompt(s.GetSessionId(), "repeat before the cut")
	first.Stopped("end_turn")
	tab.shows("before the cut")
	line.set(true)
	tab.shows("cannot be reached. Trying again")
	second := g.Prompt(s.GetSessionId(), "repeat during the cut")
	second.Stopped("end_turn")
	asked := g.Prompt(s.GetSessionId(), "ask notes.txt")
	asked.Question()
	line.set(false)
	tab.shows(": during the cut") // the agent's words, not the prompt
	tab.until("the question is there", `!!document.querySelector("article.question")`)
	tab.until("the note is gone", `!document.querySelector(".down")`)
	if n := eval[int](tab, `document.body.innerText.split(": during the cut").length - 1`); n != 1 {
		t.Errorf("the text sent during the cut is shown %d times", n)
	}
	if n := eval[int](tab, `document.body.innerText.split(": before the cut").length - 1`); n != 1 {
		t.Errorf("the text sent before the cut is shown %d times", n)
	}
	tab.until("it is answered", `(document.querySelector("article.question button.allow:enabled")?.click(), !!document.querySelector(".answered"))`)
	asked.Stopped("end_turn")
	g.Leave()
}

// TestLongSession_KeepsPageResponsive: on an idle machine, a session of 10,000 events blocks the page's main thread for
// less than 50 ms at a time, both while the session is opened and while events arrive.
func TestLongSession_KeepsPageResponsive(t *testing.T) {
	t.Parallel()
	const tries, nodes = 3, 5000
	for _, c := range []struct{ name, prompt, first, last, end, timeline string }{
		{"a message", "flood 10000", "piece 0", "piece 9999", "piece 9999", "Timeline: 1 turn"},
		{"tool calls", "calls 5000", "call 0", "call 4999", "result 4999", "Timeline: 1 turn · 5000 tool calls"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBrowserProcess(t)
			p := e2e.NewPlace(t)
			g := e2e.NewConsole(t, p)
			agent := g.Start(p.Demo())
			line := newCable(t, g.At)
			tab := b.open("http://"+line.l.Addr().String()+"/console/#/board", desktopWidth, desktopHeight)
			tab.signIn(g.Token("operator"))
			shown := `(() => { const r = document.querySelectorAll(".row"); return r[r.length - 1]?.textContent.includes(` + quoted(c.last) + `); })()`
			// expect has one of a few tries take no longer: on a busy machine, the CPU time of a task is longer, too.
			expect := func(what string, once func() task) {
				t.Helper()
				var took task
				var most float64 // ms
				for range tries {
					took = once()
					most = float64(testkit.Scale(50*time.Millisecond)) / float64(time.Millisecond)
					t.Logf("%s: the longest task took %.1f ms of CPU time, of which%s", what, took.ms, took.parts)
					if took.ms < most {
						break
					}
				}
				n := eval[int](tab, `document.getElementsByTagName("*").length`)
				t.Logf("%s: the page has %d nodes", what, n)
				if took.ms >= most {
					t.Errorf("%s: the page's main thread was kept for %.1f ms, want less than %v ms in one of %d tries", what, took.ms, most, tries)
				}
				if n > nodes {
					t.Errorf("%s: the page has %d nodes, want at most %d", what, n, nodes)
				}
			}
			var s *supervisorv1.Session
			expect("watching", func() task {
				s = g.Open(agent.GetId())
				tab.run(`location.hash = ` + quoted(e2e.SessionAt(s)))
				tab.shows("idle")
				return tab.busiest(func() {
					turn := g.Prompt(s.GetSessionId(), c.prompt)
					turn.Stopped("end_turn")
					tab.until("the last event is shown", shown)
				})
			})
			// All events come at once, so that the page alone can be what makes pauses.
			expect("opening", func() task {
				tab.run(`location.hash = "#/board"`)
				tab.until("the board is shown", `!document.querySelector(".list")`)
				return tab.busiest(func() {
					line.hold(c.end)
					tab.run(`location.hash = ` + quoted(e2e.SessionAt(s)))
					tab.until("the last event is shown", shown)
				})
			})
			expect("opening in a new page", func() task {
				return tab.busiest(func() {
					tab.do(chromedp.Reload())
					tab.until("the last event is shown", shown)
				})
			})
			tab.shows(c.timeline)
			tab.run(`document.querySelector(".list").scrollTop = 0`)
			tab.shows(c.first)
			tab.clean("a long session")
			g.Leave()
		})
	}
}
