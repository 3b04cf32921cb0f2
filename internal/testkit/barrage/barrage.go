// Package barrage plays a client and an agent that send each other valid and broken messages at random through acphost, and
// checks what becomes of each: nothing is lost, changed or doubled, the messages of a session stay in order, and each request
// is answered exactly once.
//
// It knows from the rules of acphost's documentation what may become of a message, and nothing of the code that it tests: it
// gets the two ends of a link, in the same process or of a running supervisor.
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

// Leaver says who leaves once all frames are sent.
type Leaver int

// The leavers.
const (
	Nobody Leaver = iota // all that is open is answered first
	Client               // it closes its output as soon as it has sent its share, whatever is open
	Agent                // likewise
)

// Options say what is played.
type Options struct {
	Seed   uint64 // of the messages; what comes between what depends on the machine as well
	Frames int    // lines to send, of both sides together; answers that are owed after these come on top
	Client End
	Agent  End
	// Root is the working directory of the sessions. The policy must allow all below its folder allow, deny all below deny,
	// and ask about all below ask. A file in the folder allow contains its own name: f0 to f9 are read.
	Root string
	// Gated is a method of the agent's that the user is asked about before it is forwarded; empty: none is.
	Gated string
	// MaxMessage is the limit for a line, in bytes.
	MaxMessage int
	Leaver     Leaver
	// Over waits for the end of the link, and closes all that it read and wrote. It is called once, after somebody's output was closed.
	Over func()
	// Patience is how long nothing may happen; 30 s if zero.
	Patience time.Duration
}

// Stats count what was played.
type Stats struct {
	Frames   int // that were sent
	Requests int // that were sent, and answered unless somebody left
	Broken   int // lines that must not arrive
}

// maxOpen is how many requests of one side may wait for their answers.
const maxOpen = 120

// sessions is how many there are. The turns of the second half are cancelled at random.
const sessions = 8

// barrage is one run. Its lock guards all of its parts.
type barrage struct {
	Options
	client, agent *side

	mu      sync.Mutex
	changed sync.Cond
	moves   int // grows whenever something happens
	stats   Stats
	sent    map[string]*message // what may still arrive, by mark
	fault   error
	over    bool
	trace   trace

	cancelledTurns [sessions]bool
	prompting      [sessions]bool
}

// side is one of the peers.
type side struct {
	End
	name   string
	other  *side
	in     *bufio.Reader
	random *rand.Rand
	number int
	left   int // frames of its share

	lines map[string][]*message // what it has sent and has not arrived, by session, in order
	open  map[string][]*request // its requests without an answer, by id
	all   []*request            // the same, in any order
	owed  []debt

	nulls, wantNulls map[int]int // answers under the id null, by code
	terminal         string      // the agent's: the id of a command that never ends
	closed           bool        // what it reads has ended
}

// message is a line that was sent.
type message struct {
	mark    string
	line    string
	session string // in whose order it is; "-": in none
	must    bool   // it arrives; else it may
	never   bool   // it must not arrive
	request *request
	answers *request // it is the answer to
	about   *request // it cancels
}

// request is one that a side has sent.
type request struct {
	by       *side
	id       string
	kind     kind
	session  int
	subject  string // what it is about: the name of a file
	shared   bool   // another has its id
	again    bool   // it is the second one that has
	doubled  bool   // two answers to it were sent: the second would count for a new request with its id
	refused  int    // the code that it must be answered with by acphost; 0: none
	reached  bool
	answered bool
	given    bool // its sender has cancelled it
	spoilt   bool // its answer was sent in a way that nobody can pass on
}

// debt is a request that a side has to answer: the other side's, or a question of acphost's own.
type debt struct {
	request *request
	own     string // the id of acphost's
}

// Run plays. The error says what went wrong first, with the seed and what came before it.
func Run(o Options) (Stats, error) {
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
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
			if b.write(s); b.Leaver == Client && s == b.client || b.Leaver == Agent && s == b.agent {
				b.Over()
			}
		})
	}
	writers.Wait()
	if b.Leaver == Nobody && b.first() == nil { // an answer too many would come before this
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
	if b.Leaver == Nobody {
		b.Over()
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

// read takes what a side gets.
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
			if s.left > 0 && b.Leaver == Nobody {
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

// write sends what a side has to say, until all is said and answered, or somebody has left.
func (b *barrage) write(s *side) {
	var lines []byte
	for {
		b.mu.Lock()
		for !b.over && b.fault == nil && len(s.owed) == 0 && (s.left <= 0 || len(s.all) >= maxOpen) && !b.leaves(s) && !b.settled() {
			b.changed.Wait()
		}
		if b.over = b.over || b.leaves(s) || b.settled(); b.over || b.fault != nil {
			leaver := b.leaves(s)
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
			if b.Leaver == Nobody {
				b.fail("", "the %s cannot write: %w", s.name, err)
			}
			b.changed.Broadcast()
			b.mu.Unlock()
			return
		}
	}
}

// last sends something that comes behind all else.
func (b *barrage) last(s *side) {
	mark := "~" + s.name + "~"
	b.mu.Lock()
	line := b.send(s, nil, &message{mark: mark, session: "-last", must: true, line: `{"jsonrpc":"2.0","method":"_z/last","params":{"_k":"` + mark + `"}}`})
	b.mu.Unlock()
	_, _ = s.W.Write(line)
}

// leaves reports whether a side leaves now.
func (b *barrage) leaves(s *side) bool {
	return s.left <= 0 && (b.Leaver == Client && s == b.client || b.Leaver == Agent && s == b.agent)
}

// settled reports whether all is sent, arrived and answered.
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
	return b.Leaver == Nobody
}

// check says what is missing at the end.
func (b *barrage) check() {
	for _, s := range []*side{b.client, b.agent} {
		reads := !(b.Leaver == Client && s == b.client || b.Leaver == Agent && s == b.agent)
		for _, r := range s.all {
			// Whatever had reached a side that left is answered by acphost. What acphost had not read is not.
			if b.Leaver == Nobody || b.Leaver == Agent && s == b.client && r.reached {
				b.fail(r.id, "the %s's request %s (%s) is not answered", s.name, r.id, r.kind)
			}
		}
		for _, line := range s.other.lines {
			for _, m := range line {
				// What somebody sent before he left arrives. What the other one sent meanwhile may not.
				if m.must && reads && (b.Leaver == Nobody || b.Leaver == Client && s == b.agent || b.Leaver == Agent && s == b.client) {
					b.fail(m.mark, "what the %s sent did not arrive: %.300s", s.other.name, m.line)
				}
			}
		}
		for code, got := range s.nulls {
			if want := s.wantNulls[code]; got > want || got < want && b.Leaver == Nobody {
				b.fail("", "the %s got %d errors of code %d under the id null, want %d", s.name, got, code, want)
			}
		}
	}
}

// watch ends a run in which nothing happens any more.
func (b *barrage) watch(stop <-chan struct{}) {
	last := -1
	tick := time.NewTicker(b.Patience)
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
			b.fail("", "nothing happened for %v", b.Patience)
			b.changed.Broadcast()
			_, _ = b.client.W.Close(), b.agent.W.Close()
		}
		last = b.moves
		b.mu.Unlock()
	}
}

// wait waits until something holds, or the run has failed.
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

// fail keeps the first thing that went wrong; about is what the trace shows besides the last lines.
func (b *barrage) fail(about, format string, args ...any) {
	if b.fault == nil {
		b.fault = fmt.Errorf(format, args...)
		b.trace.freeze(about)
	}
}
