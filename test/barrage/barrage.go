// Package barrage plays a client and an agent that send each other random valid and broken messages through acphost,
// and checks the delivery: no message is lost, changed or duplicated, the messages of a session stay in order, and each
// request is answered exactly once.
//
// It knows the possible results from acphost's documentation, and not the code under test: it gets the two ends of a
// link, in the same process or of a running supervisor.
package barrage

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// End is one end of a link.
type End struct {
	W io.WriteCloser
	R io.Reader
}

// Closer is the side that closes its output after all frames were sent.
type Closer int

// The values of Closer.
const (
	Neither Closer = iota // all open requests are answered first
	Client                // it closes its output as soon as it has sent its share, with requests open
	Agent                 // the same
)

// Options configure a run.
type Options struct {
	Seed uint64 // of the messages; their interleaving also depends on the machine
	// Number of lines to send by both sides together, without the answers that are still required after these.
	Frames int
	Client End
	Agent  End
	// Root is the working directory of the sessions. The policy must allow everything below its folder allow, deny
	// everything below deny, and ask about everything below ask. A file in the folder allow contains its own name: f0
	// to f9 are read.
	Root string
	// Gated is a method of the agent with a question to the user before it is forwarded; empty if none exists.
	Gated string
	// MaxMessage is the limit of a line, in bytes.
	MaxMessage int
	Closer     Closer
	// Wait waits for the end of the link, and closes all ends. It is called once, after a side closed its output.
	Wait func()
	// IdleTimeout is how long a run may go without progress; 30 s if zero.
	IdleTimeout time.Duration
}

// Stats count the messages of a run.
type Stats struct {
	Frames   int // sent
	Requests int // sent, and answered unless a side closed its output
	Broken   int // lines that must not be forwarded
}

// maxOpen is the limit of unanswered requests of one side.
const maxOpen = 120

// sessions is the number of sessions. The turns of the second half are cancelled at random.
const sessions = 8

// barrage is a run. Its lock guards all of its parts.
type barrage struct {
	Options
	client, agent *side

	mu      sync.Mutex
	changed sync.Cond
	moves   int // increases with each event
	stats   Stats
	sent    map[string]*message // messages that may still arrive, by mark
	fault   error
	over    bool
	trace   trace

	cancelledTurns [sessions]bool
	prompting      [sessions]bool
}

// side is one of the two peers.
type side struct {
	End
	name   string
	other  *side
	in     *bufio.Reader
	random *rand.Rand
	number int
	left   int // frames left to send

	lines map[string][]*message // messages that were sent and have not arrived, by session, in order
	open  map[string][]*request // its unanswered requests, by id
	all   []*request            // the same, in any order
	owed  []owedAnswer

	nulls, wantNulls map[int]int // answers with the id null, by code
	terminal         string      // for the agent: the id of a command that never ends
	closed           bool        // its input has ended
}

// message is a line that was sent.
type message struct {
	mark    string
	line    string
	session string // the session whose order it belongs to; "-": none
	must    bool   // it must arrive; otherwise it may
	never   bool   // it must not arrive
	request *request
	answers *request // the request that it answers
	about   *request // the request that it cancels
}

// request is a request that a side sent.
type request struct {
	by       *side
	id       string
	kind     kind
	session  int
	subject  string // the name of the file in it
	shared   bool   // another request has its id
	again    bool   // it is the second request with its id
	doubled  bool   // two answers to it were sent: the second would apply to a new request with its id
	refused  int    // the error code with which acphost must answer it; 0: none
	reached  bool
	answered bool
	given    bool // its sender has cancelled it
	spoilt   bool // its answer was sent in a form that cannot be forwarded
}

// owedAnswer is a request that a side has to answer: from the other side, or a question of acphost.
type owedAnswer struct {
	request *request
	own     string // the id of acphost's question
}

// Run runs a barrage. The error has the first failure, with the seed and the messages before it.
func Run(o Options) (Stats, error) {
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 30 * time.Second
	}
	b := &barrage{Options: o, sent: map[string]*message{}}
	b.changed.L = &b.mu
	b.client, b.agent = newSide("client", o.Client, o.Seed), newSide("agent", o.Agent, ^o.Seed)
	b.client.other, b.agent.other = b.agent, b.client
	b.client.left, b.agent.left = o.Frames*2/5, o.Frames-o.Frames*2/5
	if err := b.setUp(); err != nil {
		return b.stats, fmt.Errorf("before the barrage: %w", err)
	}
	stop := make(chan struct{})
	var watching, readers, writers sync.WaitGroup
	watching.Go(func() { b.watch(stop) })
	for _, s := range []*side{b.client, b.agent} {
		readers.Go(func() { b.read(s) })
		writers.Go(func() {
			if b.write(s); b.Closer == Client && s == b.client || b.Closer == Agent && s == b.agent {
				b.Wait()
			}
		})
	}
	writers.Wait()
	if b.Closer == Neither && b.first() == nil { // a superfluous answer would arrive before this message
		b.last(b.client)
		b.last(b.agent)
		b.wait(func() bool { return len(b.client.lines["-last"])+len(b.agent.lines["-last"]) == 0 })
	} else {
		b.wait(func() bool { return b.client.closed && b.agent.closed })
	}
	b.mu.Lock()
	b.check()
	b.mu.Unlock()
	close(stop)
	watching.Wait()
	_, _ = b.client.W.Close(), b.agent.W.Close()
	if b.Closer == Neither {
		b.Wait()
	}
	readers.Wait()
	if err := b.first(); err != nil {
		return b.stats, fmt.Errorf("seed %d: %w\n%s", o.Seed, err, &b.trace)
	}
	return b.stats, nil
}

func newSide(name string, end End, seed uint64) *side {
	return &side{
		End: end, name: name, in: bufio.NewReaderSize(end.R, 1<<20), random: rand.New(rand.NewPCG(seed, seed>>7)),
		lines: map[string][]*message{}, open: map[string][]*request{}, nulls: map[int]int{}, wantNulls: map[int]int{},
	}
}

// setUp opens the sessions, and starts the command that never ends.
func (b *barrage) setUp() error {
	opens := func(request, answer string) error {
		if _, err := io.WriteString(b.client.W, request+"\n"); err != nil {
			return err
		}
		if _, err := b.agent.in.ReadBytes('\n'); err != nil {
			return err
		}
		if _, err := io.WriteString(b.agent.W, answer+"\n"); err != nil {
			return err
		}
		_, err := b.client.in.ReadBytes('\n')
		return err
	}
	err := opens(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"elicitation":{"form":{}}}}}`,
		`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":1,"agentInfo":{"name":"barrage","version":"1"}}}`)
	for n := range sessions {
		err = errors.Join(err, opens(fmt.Sprintf(`{"jsonrpc":"2.0","id":"n%d","method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, n, b.Root),
			fmt.Sprintf(`{"jsonrpc":"2.0","id":"n%d","result":{"sessionId":"s%d"}}`, n, n)))
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(b.agent.W, `{"jsonrpc":"2.0","id":"t","method":"terminal/create","params":{"sessionId":"s0","command":"sleep","args":["100000"]}}`+"\n")
	if err != nil {
		return err
	}
	answer, err := b.agent.in.ReadString('\n')
	if _, id, ok := strings.Cut(answer, `"terminalId":"`); ok {
		b.agent.terminal, _, _ = strings.Cut(id, `"`)
	} else if err == nil {
		err = fmt.Errorf("terminal/create was answered with %s", answer)
	}
	return err
}

// read checks the messages that a side receives.
func (b *barrage) read(s *side) {
	for {
		line, err := s.in.ReadBytes('\n')
		b.mu.Lock()
		b.moves++
		if err == nil && b.fault == nil {
			b.trace.add(s.name, "<", line)
			b.take(s, line)
		}
		if err != nil {
			s.closed = true
			if s.left > 0 && b.Closer == Neither {
				b.fail("", "the link has ended for the %s: %w", s.name, err)
			}
		}
		b.changed.Broadcast()
		b.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// write sends the messages of a side, until all are sent and answered, or a side has closed its output.
func (b *barrage) write(s *side) {
	var lines []byte
	for {
		b.mu.Lock()
		for !b.over && b.fault == nil && len(s.owed) == 0 && (s.left <= 0 || len(s.all) >= maxOpen) && !b.closes(s) && !b.settled() {
			b.changed.Wait()
		}
		if b.over = b.over || b.closes(s) || b.settled(); b.over || b.fault != nil {
			leaver := b.closes(s)
			b.changed.Broadcast()
			b.mu.Unlock()
			if leaver {
				_ = s.W.Close()
			}
			return
		}
		lines = lines[:0]
		for range 1 + s.random.IntN(12) {
			if len(s.owed) > 0 && (s.left <= 0 || len(s.all) >= maxOpen || s.random.IntN(3) == 0) {
				lines = b.pay(s, lines)
			} else if s.left > 0 && len(s.all) < maxOpen {
				lines = b.say(s, lines)
			}
		}
		half := 0
		if s.random.IntN(8) == 0 && len(lines) > 0 { // so that a line arrives in two parts
			half = s.random.IntN(len(lines))
		}
		b.mu.Unlock()
		_, err := s.W.Write(lines[:half])
		if err == nil {
			_, err = s.W.Write(lines[half:])
		}
		if err != nil {
			b.mu.Lock()
			if b.Closer == Neither {
				b.fail("", "the %s cannot write: %w", s.name, err)
			}
			b.changed.Broadcast()
			b.mu.Unlock()
			return
		}
	}
}

// last sends a final message after all others.
func (b *barrage) last(s *side) {
	mark := "~" + s.name + "~"
	b.mu.Lock()
	line := b.send(s, nil, &message{mark: mark, session: "-last", must: true, line: `{"jsonrpc":"2.0","method":"_z/last","params":{"_k":"` + mark + `"}}`})
	b.mu.Unlock()
	_, _ = s.W.Write(line)
}

// closes reports whether a side closes its output now.
func (b *barrage) closes(s *side) bool {
	return s.left <= 0 && (b.Closer == Client && s == b.client || b.Closer == Agent && s == b.agent)
}

// settled reports whether everything was sent, delivered and answered.
func (b *barrage) settled() bool {
	for _, s := range []*side{b.client, b.agent} {
		if s.left > 0 || len(s.owed) > 0 || len(s.all) > 0 {
			return false
		}
		for _, line := range s.lines {
			for _, m := range line {
				if m.must {
					return false
				}
			}
		}
		for code, want := range s.wantNulls {
			if s.nulls[code] < want {
				return false
			}
		}
	}
	return b.Closer == Neither
}

// check reports missing messages and answers at the end.
func (b *barrage) check() {
	for _, s := range []*side{b.client, b.agent} {
		reads := !(b.Closer == Client && s == b.client || b.Closer == Agent && s == b.agent)
		for _, r := range s.all {
			// acphost answers requests that had reached a side that closed its output. It does not answer requests that
			// it had not read.
			if b.Closer == Neither || b.Closer == Agent && s == b.client && r.reached {
				b.fail(r.id, "the %s's request %s (%s) is not answered", s.name, r.id, r.kind)
			}
		}
		for _, line := range s.other.lines {
			for _, m := range line {
				// Messages that a side sent before it closed its output arrive. Messages that the other side sent
				// meanwhile may be lost.
				if m.must && reads && (b.Closer == Neither || b.Closer == Client && s == b.agent || b.Closer == Agent && s == b.client) {
					b.fail(m.mark, "what the %s sent did not arrive: %.300s", s.other.name, m.line)
				}
			}
		}
		for code, got := range s.nulls {
			if want := s.wantNulls[code]; got > want || got < want && b.Closer == Neither {
				b.fail("", "the %s got %d errors of code %d under the id null, want %d", s.name, got, code, want)
			}
		}
	}
}

// watch ends a run without progress.
func (b *barrage) watch(stop <-chan struct{}) {
	last := -1
	tick := time.NewTicker(b.IdleTimeout)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		b.mu.Lock()
		if b.moves == last && b.fault == nil {
			b.check()
			b.fail("", "nothing happened for %v", b.IdleTimeout)
			b.changed.Broadcast()
			_, _ = b.client.W.Close(), b.agent.W.Close()
		}
		last = b.moves
		b.mu.Unlock()
	}
}

// wait waits until a condition holds, or the run has failed.
func (b *barrage) wait(until func() bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !until() && b.fault == nil {
		b.changed.Wait()
	}
}

func (b *barrage) first() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fault
}

// fail records the first failure; about selects the lines that the trace shows in addition to the last lines.
func (b *barrage) fail(about, format string, args ...any) {
	if b.fault == nil {
		b.fault = fmt.Errorf(format, args...)
		b.trace.freeze(about)
	}
}
