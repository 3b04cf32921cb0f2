package activity

import (
	"bytes"
	"sync/atomic"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/fileref"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
)

const (
	// itemCost, eventCost and touchCost are the assumed sizes of a queued frame, an event and a file in use, in
	// addition to their data.
	itemCost  = 320
	eventCost = 512
	touchCost = 96
	// releaseAt is how many processed bytes are collected before they are released.
	releaseAt = 256 << 10
	// pacedFactor is the factor by which the queue limit is raised for an agent whose client waits for room, so that
	// messages in transit still fit when the queue is full.
	pacedFactor = 4
	// restAt and restBytes limit the calls to handlers, and their answers, that are queued without waking the goroutine
	// while there are no watchers: their number and their bytes.
	restAt    = 64
	restBytes = 64 << 10
	// logInterval is the minimum time between two log messages about losses.
	logInterval = time.Minute
)

// port receives the frames of one agent.
type port struct {
	hub   *Hub
	id    string                      // of the agent
	agent atomic.Pointer[frame.Agent] // replaced when an agent with the same id is started again
	// secrets are masked before a frame is stored: so neither the record nor watchers get them.
	secrets *secret.Frames

	// Guarded by Hub.mu.
	watched    int            // number of watchers of the whole agent
	sessions   map[string]int // number of watchers by session
	full       int            // number of full subscriptions
	paced      bool           // its client waits for room
	incomplete bool           // frames were lost

	// Used by the goroutine only.
	decoder  *event.Decoder
	turnEnds int // its entries in Hub.turnEnds
}

// item is an entry of the queue: a frame, an event, a loss or a mark.
type item struct {
	port  *port
	frame frame.Frame
	event *supervisorv1.Event
	lost  uint64 // frames of the port
	mark  chan<- struct{}
	seq   uint64
	skips uint64 // Hub.skips
	cost  int
	rests bool // no call waits for it
}

// agent returns the name of the item's agent; empty: it has none.
func (it *item) agent() string {
	if it.port == nil {
		return ""
	}
	return it.port.agent.Load().Name
}

// loss counts the lost frames of an agent.
type loss struct {
	port   *port
	frames uint64
	seq    uint64 // of the last lost frame
}

// Frame implements frame.Observer. It only waits for the Hub's lock.
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
	case live || !plainChunk(f) && event.Needed(f): // most frames are neither; they are not copied
		p.put(f, live)
	default:
		h.skips++
	}
}

// live reports whether a watcher needs the events of a frame.
func (p *port) live(f *frame.Frame) bool {
	return p.hub.all > 0 || p.watched > 0 ||
		len(p.sessions) > 0 && (!f.Scanned || len(f.SessionID) == 0 || p.sessions[string(f.SessionID)] > 0)
}

// plainChunk reports whether a frame is a plain chunk of the agent's message or thought, in the usual spelling, without
// usage. event.Needed returns false for all of these, but takes longer.
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
	// A queue that is not full accepts a frame of any size, so that small frames never cause the loss of one large
	// message.
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

// lose counts a lost frame.
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

// decode converts a frame to events. Only the goroutine calls it.
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

// port returns the port of an agent, and creates it if it does not exist. mu is held.
func (h *Hub) port(agentID string) *port {
	p := h.ports[agentID]
	if p == nil {
		p = &port{hub: h, id: agentID, sessions: map[string]int{}, secrets: secret.NewFrames(h.opts.SecretVariables)}
		p.agent.Store(&frame.Agent{ID: agentID})
		h.ports[agentID] = p
	}
	return p
}

// put queues an item after the losses before it. mu is held.
func (h *Hub) put(it item) {
	idle := len(h.queue) == 0 || h.resting
	h.queueLosses()
	it.skips = h.skips
	h.held += it.cost
	h.queue = append(h.queue, it)
	h.resting = idle && it.rests && len(h.queue) < restAt && h.held < restBytes
	if idle && !h.resting {
		h.awake()
	}
}

func (h *Hub) queueLosses() {
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

// takeQueued removes and returns the queued items.
func (h *Hub) takeQueued() (batch []item, closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queueLosses()
	batch, h.queue, h.spare, h.resting = h.queue, h.spare[:0], nil, false
	return batch, h.closed
}

// giveBack returns a batch's memory for reuse.
func (h *Hub) giveBack(batch []item) {
	clear(batch)
	if cap(batch) > 1024 { // too large to keep
		return
	}
	h.mu.Lock()
	h.spare = batch[:0]
	h.mu.Unlock()
}

// release releases bytes of the queue.
func (h *Hub) release(bytes int) {
	h.mu.Lock()
	h.held -= bytes
	h.freed()
	h.mu.Unlock()
}

// freed wakes the calls that wait for room. mu is held.
func (h *Hub) freed() {
	if h.waiting > 0 {
		close(h.room)
		h.room, h.waiting = nil, 0
	}
}
