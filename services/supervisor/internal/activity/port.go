package activity

import (
	"bytes"
	"sync/atomic"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/event"
	"github.com/acphost/acphost/services/supervisor/internal/fileref"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/secret"
)

const (
	// itemCost, eventCost and touchCost are what a queued frame, an event and a file in use count for beside their bytes.
	itemCost  = 320
	eventCost = 512
	touchCost = 96
	// releaseAt is how many bytes are worked on before they are given free.
	releaseAt = 256 << 10
	// pacedFactor is how many times as much may be queued of an agent whose client waits for room. So what is under way when
	// the room ends still has a place.
	pacedFactor = 4
	// restAt and restBytes are how many calls to handlers, and their answers, wait until one goroutine is woken for all of
	// them, while nobody watches, and how many bytes of them.
	restAt    = 64
	restBytes = 64 << 10
	// sayAgain is how long after a loss was logged another one is.
	sayAgain = time.Minute
)

// port is where the frames of one agent come in.
type port struct {
	hub   *Hub
	id    string                      // the agent's
	agent atomic.Pointer[frame.Agent] // which may be another with the same id, once it was started anew
	// secrets are taken out before anybody keeps a frame: so neither the record has them nor those who watch.
	secrets *secret.Frames

	// Guarded by Hub.mu.
	watched    int            // who watch the whole agent
	sessions   map[string]int // who watch a session of its
	full       int            // subscriptions that are
	paced      bool           // its client waits for room
	incomplete bool           // frames of it were lost

	// The goroutine's.
	decoder  *event.Decoder
	turnEnds int // of Hub.turnEnds
}

// item is what waits for the goroutine: a frame, an event, a loss or a mark.
type item struct {
	port  *port
	frame frame.Frame
	event *supervisorv1.Event
	lost  uint64 // frames of the port
	mark  chan<- struct{}
	seq   uint64
	skips uint64 // Hub.skips
	cost  int
	rests bool // nobody waits for it
}

// agent is the name of the agent that it is about; empty: it is about none.
func (it *item) agent() string {
	if it.port == nil {
		return ""
	}
	return it.port.agent.Load().Name
}

// loss counts the frames of an agent that found no room.
type loss struct {
	port   *port
	frames uint64
	seq    uint64 // of the last
}

// Frame implements frame.Observer. It waits for nothing but the Hub's lock.
func (p *port) Frame(f frame.Frame) {
	if p.secrets.MayHold(&f) {
		f = p.secrets.Redact(f)
	}
	p.enqueue(&f)
}

func (p *port) enqueue(f *frame.Frame) {
	h := p.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seq++
	f.Agent, f.Seq = p.agent.Load(), h.seq
	if f.Time.IsZero() { // under the lock, so that times are in order
		f.Time = h.opts.Now()
	}
	if h.opts.Journal != nil {
		h.opts.Journal.Add(f)
	}
	switch live := p.live(f); {
	case h.closed:
	case live || !plainChunk(f) && event.Needed(f): // most frames are neither, and those are not even copied
		p.put(f, live)
	default:
		h.skips++
	}
}

// live reports whether somebody watches what a frame tells.
func (p *port) live(f *frame.Frame) bool {
	return p.hub.all > 0 || p.watched > 0 ||
		len(p.sessions) > 0 && (!f.Scanned || len(f.SessionID) == 0 || p.sessions[string(f.SessionID)] > 0)
}

// plainChunk reports whether a frame is a piece of what the agent says or thinks, spelled as most agents spell it, that does
// not say what it took. event.Needed says no to each of these, and takes longer.
func plainChunk(f *frame.Frame) bool {
	const begin, middle = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"`, `","update":{"sessionUpdate":"agent_`
	const message, thought = `message_chunk"`, `thought_chunk"`
	if !f.Scanned || f.ID != nil || f.Direction != frame.AgentToClient || len(f.Rest) > 0 {
		return false
	}
	at := len(begin) + len(f.SessionID)
	if len(f.Line) < at+len(middle)+len(message) || string(f.Line[:len(begin)]) != begin ||
		string(f.Line[len(begin):at]) != string(f.SessionID) || string(f.Line[at:at+len(middle)]) != middle {
		return false
	}
	at += len(middle)
	switch string(f.Line[at : at+len(message)]) {
	case message:
		return !bytes.Contains(f.Line[at+len(message):], []byte(`usage"`))
	case thought:
		return true
	}
	return false
}

// put queues a copy of a frame, or counts it as lost.
func (p *port) put(f *frame.Frame, live bool) {
	h := p.hub
	c := *f
	event.Shorten(&c)
	f = &c
	size, whole := sizeOf(f), briefAbove
	if !live {
		whole = unwatchedBriefAbove
	}
	if size > whole && brief(f) {
		size = sizeOf(f)
	}
	limit := h.opts.MaxQueued
	if p.paced {
		limit *= pacedFactor
	}
	// A queue that is not full takes a frame of any size: one large message is never lost for what is small before it.
	if h.held > 0 && h.held+min(itemCost+size, briefAbove) > limit && !endsTurn(f) {
		p.lose(f.Seq)
		return
	}
	room := make([]byte, 0, size)
	part := func(parts ...[]byte) []byte {
		from := len(room)
		for _, b := range parts {
			room = append(room, b...)
		}
		return room[from:len(room):len(room)]
	}
	c.Line, c.Rest = part(append([][]byte{c.Line}, c.Rest...)...), nil
	for _, b := range []*[]byte{&c.Method, &c.ID, &c.SessionID} {
		if *b != nil {
			*b = part(*b)
		}
	}
	toHandler := f.Direction == frame.AgentToHandler || f.Direction == frame.HandlerToAgent
	h.put(item{port: p, frame: c, seq: f.Seq, cost: itemCost + size, rests: !live && toHandler && h.filers == 0})
}

// lose counts a frame.
func (p *port) lose(seq uint64) {
	h := p.hub
	p.incomplete = true
	for i := range h.losses {
		if l := &h.losses[i]; l.port == p {
			l.frames++
			l.seq = seq
			return
		}
	}
	h.losses = append(h.losses, loss{port: p, frames: 1, seq: seq})
}

// decode makes events of a frame. The goroutine calls it.
func (p *port) decode(h *Hub, f *frame.Frame) []*supervisorv1.Event {
	if p.decoder == nil {
		p.decoder = event.NewDecoder(*f.Agent, h.cursor)
		if h.opts.TurnGrace > 0 {
			p.decoder.HoldEnds()
		}
		p.decoder.Present = fileref.Present
	}
	return p.decoder.Frame(*f)
}

// port is an agent's, made if it is missing. mu is held.
func (h *Hub) port(agentID string) *port {
	p := h.ports[agentID]
	if p == nil {
		p = &port{hub: h, id: agentID, sessions: map[string]int{}, secrets: secret.NewFrames(h.opts.SecretVariables)}
		p.agent.Store(&frame.Agent{ID: agentID})
		h.ports[agentID] = p
	}
	return p
}

// put queues an item behind what was lost before it. mu is held.
func (h *Hub) put(it item) {
	idle := len(h.queue) == 0 || h.resting
	h.tellLosses()
	it.skips = h.skips
	h.held += it.cost
	h.queue = append(h.queue, it)
	h.resting = idle && it.rests && len(h.queue) < restAt && h.held < restBytes
	if idle && !h.resting {
		h.awake()
	}
}

func (h *Hub) tellLosses() {
	for _, l := range h.losses {
		h.held += eventCost
		h.queue = append(h.queue, item{port: l.port, lost: l.frames, seq: l.seq, skips: h.skips, cost: eventCost})
	}
	h.losses = h.losses[:0]
}

func (h *Hub) awake() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// takeQueued removes and returns what is queued.
func (h *Hub) takeQueued() (batch []item, closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tellLosses()
	batch, h.queue, h.spare, h.resting = h.queue, h.spare[:0], nil, false
	return batch, h.closed
}

// giveBack takes back what a batch stood in.
func (h *Hub) giveBack(batch []item) {
	clear(batch)
	if cap(batch) > 1024 { // it was a flood
		return
	}
	h.mu.Lock()
	h.spare = batch[:0]
	h.mu.Unlock()
}

// release makes room: so many bytes are not held any more.
func (h *Hub) release(bytes int) {
	h.mu.Lock()
	h.held -= bytes
	h.freed()
	h.mu.Unlock()
}

// freed wakes those who wait for room. mu is held.
func (h *Hub) freed() {
	if h.waiting > 0 {
		close(h.room)
		h.room, h.waiting = nil, 0
	}
}
