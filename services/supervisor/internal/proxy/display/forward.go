package display

import (
	"bytes"
	"maps"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// Mentions reports whether a report of a tool call may have to do with terminals, one that it shows or one that it
// replaces: a cheap look, before Forward takes a close one.
func Mentions(report []byte) bool { return bytes.Contains(report, []byte(`"content"`)) }

// Forward sends a line that reports a tool call to the client, an update or a permission question. Where it is the first
// that shows a terminal of ours, frames of our own go before it; where it shows one that the client cannot, other content
// goes in its place. Nothing else of the line changes: most lines are passed to send as the only buffer, the very bytes
// that came.
//
// at is the path to the report in the line; tc is all that is known of the call, the report included. send must have
// written the buffers, in order, when it returns, unless the line alone is passed as it came; its error is returned.
func (d *Display) Forward(sessionID string, line []byte, tc acp.ToolCall, send func(bufs ...[]byte) error, at ...string) error {
	key := callKey{sessionID, tc.ID}
	mentions := bytes.Contains(line, []byte(`"terminal`))
	d.mu.Lock()
	replaces := d.texts[key] != nil
	d.mu.Unlock()
	if tc.ID == "" || !mentions && !replaces {
		return send(line)
	}
	at = append(append([]string{}, at...), "content")
	content, ok := parseContent(acp.Get(line, at...))
	if !ok { // no content, or none that can be read: whatever stood, stands
		return send(line)
	}
	d.order.Lock()
	defer d.order.Unlock()
	d.mu.Lock()
	p := d.plan(key, tc, content)
	d.mu.Unlock()
	if p == nil {
		return send(line)
	}
	if p.content != nil {
		rewritten, err := acp.Set(line, p.content, at...)
		if err == nil {
			line = rewritten
		}
	}
	err := send(append(p.before, line)...)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		for _, s := range p.shows {
			for _, part := range s.parts {
				d.endShown(s, part.terminal)
			}
		}
		return err
	}
	d.start(p.shows)
	return nil
}

// plan is what becomes of a line.
type plan struct {
	before  [][]byte
	content []byte  // the content in place of the line's own; nil: that stays
	shows   []*show // to be started once the line is written
}

// plan decides what becomes of a line that replaces a tool call's content; nil: it passes as it is. order and mu are
// held.
func (d *Display) plan(key callKey, tc acp.ToolCall, c content) *plan {
	d.replace(key)
	var ours []*terminal
	stale := map[string][]byte{}
	seen := map[string]bool{}
	for _, it := range c.items {
		if it.terminal == "" || seen[it.terminal] {
			continue
		}
		seen[it.terminal] = true
		switch t, foreign := d.known(key.sessionID, it.terminal); {
		case t != nil:
			ours = append(ours, t)
		case !foreign:
			stale[it.terminal] = textItem("[" + unavailable + "]")
		}
	}
	switch {
	case len(ours) == 0 && len(stale) == 0:
		return nil
	case d.metadata:
		return d.planMetadata(key, tc, c, ours, stale)
	}
	return d.planText(key, c, ours, stale)
}

// planMetadata introduces the terminals that the client does not know yet, each by a tool call of its own, since one can
// carry a single terminal_info. What such a tool call shows is known by then.
func (d *Display) planMetadata(key callKey, tc acp.ToolCall, c content, ours []*terminal, stale map[string][]byte) *plan {
	p := &plan{}
	if len(stale) > 0 {
		p.content = c.render(stale)
	}
	unknown := map[string]bool{}
	for _, t := range ours {
		unknown[t.id] = !t.introduced
	}
	for _, t := range ours {
		if t.introduced {
			continue
		}
		delete(unknown, t.id)
		p.before = append(p.before, introduction(key, tc, c.without(unknown).render(stale), t))
		s := newShow(key, true)
		s.add(t)
		p.shows = append(p.shows, s)
	}
	if p.before == nil && p.content == nil {
		return nil
	}
	return p
}

// planText puts text in the place of terminals.
func (d *Display) planText(key callKey, c content, ours []*terminal, stale map[string][]byte) *plan {
	s := newShow(key, false)
	for _, t := range ours {
		s.add(t)
	}
	texts := s.shown()
	for _, p := range s.parts {
		p.seen, p.told = p.out.total(), p.over
		if p.told {
			d.endShown(s, p.terminal)
		}
	}
	maps.Copy(texts, stale)
	out := &plan{content: c.render(texts), shows: []*show{s}}
	s.content = c.clone(stale)
	if len(d.texts) >= maxTexts || d.textsSize+s.content.size > maxContent { // it stays as it is first shown
		for _, p := range s.parts {
			p.told = true
			d.endShown(s, p.terminal)
		}
	}
	return out
}

// content is the content of a tool call: the items of a JSON array.
type content struct {
	items []item
	size  int // bytes
}

// item is one item of content; terminal is its id if it is one.
type item struct {
	raw      []byte
	terminal string
}

// parseContent reads a tool call's content; false if it is no array, or one that can be read in more ways than one.
func parseContent(raw []byte) (c content, ok bool) {
	if len(raw) == 0 || raw[0] != '[' {
		return c, false
	}
	err := acp.Elements(raw, func(v []byte) bool {
		it := item{raw: v}
		if v[0] == '{' {
			if kind, _ := acp.String(acp.Get(v, "type")); kind == "terminal" {
				it.terminal, _ = acp.String(acp.Get(v, "terminalId"))
			}
		}
		c.items = append(c.items, it)
		c.size += len(v)
		return true
	})
	return c, err == nil
}

// render writes the content with other items in place of terminals. One that is mentioned again is not written again.
func (c content) render(instead map[string][]byte) []byte {
	out := make([]byte, 0, c.size+len(c.items)+256)
	out = append(out, '[')
	written := map[string]bool{}
	for i, it := range c.items {
		if i > 0 {
			out = append(out, ',')
		}
		text, ok := instead[it.terminal]
		switch {
		case it.terminal == "" || !ok:
			out = append(out, it.raw...)
		case written[it.terminal]:
			out = append(out, textItem("[this terminal is shown above]")...)
		default:
			out = append(out, text...)
			written[it.terminal] = true
		}
	}
	return append(out, ']')
}

// without returns the content less some terminals.
func (c content) without(ids map[string]bool) content {
	var out content
	for _, it := range c.items {
		if it.terminal == "" || !ids[it.terminal] {
			out.items = append(out.items, it)
			out.size += len(it.raw)
		}
	}
	return out
}

// clone returns a copy to keep, in which fixed texts have taken the place of some terminals.
func (c content) clone(fixed map[string][]byte) content {
	out := content{items: make([]item, len(c.items)), size: c.size}
	all := make([]byte, 0, c.size)
	for i, it := range c.items {
		if text, ok := fixed[it.terminal]; ok && it.terminal != "" {
			out.items[i] = item{raw: text}
			continue
		}
		from := len(all)
		all = append(all, it.raw...)
		out.items[i] = item{raw: all[from:len(all):len(all)], terminal: it.terminal}
	}
	return out
}
