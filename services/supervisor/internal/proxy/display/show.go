package display

import (
	"time"

	"github.com/acphost/acphost/internal/panics"
)

// How often the client is told of what is new.
const (
	metadataEvery = 50 * time.Millisecond
	textEvery     = 500 * time.Millisecond
	// retryEvery is how soon another attempt is made when somebody else was writing.
	retryEvery = 25 * time.Millisecond
	// endPatience is how long the end of a terminal waits for a moment when nobody else writes, before it takes its
	// turn with the others: an agent that never pauses would else keep it from the client, and itself from the answer.
	endPatience = time.Second
)

// maxLive is up to how many bytes of other content are repeated with each piece of a terminal's text. With more, the
// text is brought up to date at the terminal's end alone.
const maxLive = 256 << 10

// show is what is kept up to date at the client: in metadata, a terminal, under the tool call that introduced it; in
// text, the content of a tool call with the terminals in it. One goroutine runs it.
type show struct {
	key      callKey
	metadata bool
	content  content // text alone
	parts    []*part
	wake     chan struct{} // something is new; holds one
	gone     chan struct{} // closed, with the Display's order held, when the agent has replaced the content
}

// part is a terminal in a show. Its fields are guarded by the Display's mu.
type part struct {
	*terminal
	seen uint64 // up to where the client has its output
	told bool   // the client knows that it has ended
}

func newShow(key callKey, metadata bool) *show {
	return &show{key: key, metadata: metadata, wake: make(chan struct{}, 1), gone: make(chan struct{})}
}

// add makes a terminal part of the show, which owes its end from now on. The Display's mu is held.
func (s *show) add(t *terminal) {
	s.parts = append(s.parts, &part{terminal: t})
	t.owed[s] = struct{}{}
}

// news says what there is to tell: something new, an end, or nothing ever again. The Display's mu is held.
func (s *show) news() (some, end, done bool) {
	done = true
	for _, p := range s.parts {
		if p.told {
			continue
		}
		done = false
		switch {
		case p.over:
			end = true
		case s.metadata:
			some = some || p.out.pending(p.seen)
		case s.content.size <= maxLive:
			some = some || p.out.total() != p.seen
		}
	}
	return some, end, done
}

// isGone reports whether the agent has replaced the content.
func (s *show) isGone() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// run keeps the client up to date until all has been told, the agent replaces the content, or the Display is closed.
func (d *Display) run(s *show) {
	every := textEvery
	if s.metadata {
		every = metadataEvery
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var next, ending time.Time // when to send again; since when an end is to be told
	for {
		d.mu.Lock()
		some, end, done := s.news()
		d.mu.Unlock()
		if done || s.isGone() || d.ctx.Err() != nil {
			return
		}
		now := time.Now()
		if end && ending.IsZero() {
			ending, next = now, now
		}
		if (some || end) && !now.Before(next) {
			if d.tell(s, end && now.Sub(ending) >= endPatience) {
				next, ending = time.Now().Add(every), time.Time{}
				continue
			}
			next = now.Add(retryEvery)
		}
		var due <-chan time.Time
		if some || end {
			timer.Reset(next.Sub(now))
			due = timer.C
		}
		select {
		case <-due:
		case <-s.wake:
		case <-s.gone:
			return
		case <-d.ctx.Done():
			return
		}
	}
}

// tell sends what is new. Unless it is to insist, it sends nothing while anybody else writes, and returns false then.
func (d *Display) tell(s *show, insist bool) bool {
	if insist {
		d.order.Lock()
	} else if !d.order.TryLock() {
		return false
	}
	defer d.order.Unlock()
	if s.isGone() {
		return true
	}
	frame, done := d.frame(s)
	switch {
	case insist:
		if err := d.opts.Sink.Send(frame); err != nil {
			d.opts.Logger.Debug("the client did not take a terminal's end", "error", err)
		}
	case !d.opts.Sink.TrySend(frame):
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	done()
	return true
}

// frame builds the lines that bring the client up to date, and done, which notes that it is: d.mu is held for done.
func (d *Display) frame(s *show) (frame []byte, done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	told := make([]part, len(s.parts)) // the parts as they will be
	for i, p := range s.parts {
		told[i] = part{p.terminal, p.out.total(), p.over}
		if !s.metadata {
			continue
		}
		var data string
		data, told[i].seen = p.out.after(p.seen, p.over)
		if data != "" {
			frame = appendOutput(frame, s.key, p.id, data)
		}
		if p.over {
			frame = appendExit(frame, s.key, p.id, p.exit)
		}
	}
	if !s.metadata {
		frame = appendContent(nil, s.key, s.content.render(s.shown()))
	}
	return frame, func() {
		for i, p := range s.parts {
			p.seen = told[i].seen
			if s.metadata {
				p.out.discard(p.seen)
			}
			if told[i].told && !p.told {
				p.told = true
				d.endShown(s, p.terminal)
			}
		}
		if _, _, done := s.news(); done {
			d.drop(s)
		}
	}
}

// shown returns what stands in place of each terminal. The Display's mu is held.
func (s *show) shown() map[string][]byte {
	texts := make(map[string][]byte, len(s.parts))
	for _, p := range s.parts {
		text, cut := plain(p.out.buf, p.out.base > 0, p.over, max(maxText/len(s.parts), minText))
		texts[p.id] = textItem(fenced(text, cut, p.end))
	}
	return texts
}

// replace ends the show of a tool call whose content the agent replaces. order and mu are held.
func (d *Display) replace(key callKey) {
	s := d.texts[key]
	if s == nil {
		return
	}
	close(s.gone)
	for _, p := range s.parts {
		d.endShown(s, p.terminal)
	}
	d.drop(s)
}

// drop forgets the content of a show. d.mu is held.
func (d *Display) drop(s *show) {
	if d.texts[s.key] == s {
		delete(d.texts, s.key)
		d.textsSize -= s.content.size
	}
}

// start runs shows that the client has been prepared for. d.mu is held.
func (d *Display) start(shows []*show) {
	for _, s := range shows {
		for _, p := range s.parts {
			p.introduced = p.introduced || s.metadata
			d.watch(p.terminal)
		}
		if _, _, done := s.news(); done || d.closed {
			continue
		}
		if !s.metadata {
			d.texts[s.key] = s
			d.textsSize += s.content.size
		}
		d.wg.Go(panics.Guard(d.opts.Logger, "showing a terminal", func() { d.run(s) }))
	}
}
