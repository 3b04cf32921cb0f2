package render

import (
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// maxThought limits the characters of a thought.
const maxThought = 300

// stream shows a message that arrives in pieces.
type stream interface {
	// add returns the text for a piece.
	add(text string) string
	// object shows an object that is not text, on its own line.
	object(text string) string
	// pause returns the held back part of the last word.
	pause() string
	// end returns the text that was held back, and ends the last line.
	end() string
}

func (r *Renderer) newStream(k kind) stream {
	switch {
	case k == thought:
		return newShortStream(r.o, "thinking: ")
	case k == summary:
		return newShortStream(r.o, "summary: ")
	case k == user:
		return &quoteStream{o: r.o, wrapped: wrapped{w: wrapper{o: r.o}}}
	case r.o.Markdown:
		return &markdownStream{o: r.o, m: newMarkdown(r.o)}
	}
	return &plainStream{}
}

// edges holds back line feeds at the ends of a message.
type edges struct {
	begun bool
	feeds int // line feeds at the current end
}

func (e *edges) cut(text string) string {
	if !e.begun {
		text = strings.TrimLeft(text, "\r\n")
	}
	body := strings.TrimRight(text, "\n")
	if body == "" {
		if e.begun {
			e.feeds = min(e.feeds+len(text), 64)
		}
		return ""
	}
	e.begun = true
	out := strings.Repeat("\n", e.feeds) + body
	e.feeds = min(len(text)-len(body), 64)
	return out
}

// onOwnLine puts an object on its own line after the text before it.
func (e *edges) onOwnLine(before, object string) string {
	*e = edges{begun: true}
	return before + object + "\n"
}

// plainStream shows text unchanged.
type plainStream struct {
	edges edges
	clean safetext.Cleaner
	open  bool // the last line is incomplete
}

func (s *plainStream) add(text string) string {
	text = s.clean.Add(s.edges.cut(text))
	if text != "" {
		s.open = !strings.HasSuffix(text, "\n")
	}
	return text
}

func (s *plainStream) object(text string) string { return s.edges.onOwnLine(s.end(), text) }

func (s *plainStream) end() string {
	text := s.clean.End()
	if s.open || text != "" {
		text += "\n"
	}
	s.open = false
	return text
}

func (s *plainStream) pause() string { return "" }

// markdownStream shows Markdown.
type markdownStream struct {
	o     Options
	edges edges
	m     *markdownWriter
}

func (s *markdownStream) add(text string) string { return s.m.add(s.edges.cut(text)) }

func (s *markdownStream) object(text string) string {
	return s.edges.onOwnLine(s.end(), s.o.paint(dim, text))
}

func (s *markdownStream) pause() string { return s.m.w.paused() }

func (s *markdownStream) end() string { return s.m.end() }

// wrapped is wrapped text.
type wrapped struct {
	w    wrapper
	open bool // the last line is incomplete
}

func (s *wrapped) pause() string { return s.w.paused() }

func (s *wrapped) end() string {
	if s.open {
		s.w.newline()
		s.open = false
	}
	return s.w.taken()
}

// shortStream shows the beginning of a text, dimmed, as one paragraph.
type shortStream struct {
	wrapped
	clean   safetext.Cleaner
	left    int
	space   bool // white space was held back
	started bool
}

func newShortStream(o Options, label string) *shortStream {
	s := &shortStream{wrapped: wrapped{w: wrapper{o: o}}, left: maxThought}
	s.w.prefixed(o.paint(dim, label), "  ")
	return s
}

func (s *shortStream) add(text string) string {
	if s.left == 0 {
		return ""
	}
	var b strings.Builder
	for _, c := range s.clean.Add(strings.ReplaceAll(text, "**", "")) {
		if c == ' ' || c == '\n' || c == '\t' {
			s.space = s.started
			continue
		}
		if s.space {
			b.WriteByte(' ')
			s.space = false
			s.left--
		}
		s.started = true
		b.WriteRune(c)
		if s.left--; s.left <= 0 {
			s.left = 0
			b.WriteRune('…')
			break
		}
	}
	if b.Len() > 0 {
		s.open = true
		s.w.text(dim, b.String())
	}
	return s.w.taken()
}

func (s *shortStream) object(text string) string { return s.add(" " + text + " ") }

// quoteStream shows the user's message, with a bracket before each line.
type quoteStream struct {
	wrapped
	o     Options
	edges edges
	clean safetext.Cleaner
	count int // characters
}

// maxUser limits the bytes of the user's message.
const maxUser = 8 << 10

func (s *quoteStream) add(text string) string {
	text = s.edges.cut(text)
	if s.count > maxUser {
		return ""
	}
	if cut, over := safetext.Prefix(text, maxUser-s.count); over {
		text = cut + " … (cut)"
		s.count = maxUser + 1
	}
	s.count += len(text)
	bar := s.o.paint(blue, ">") + " "
	lines := strings.Split(s.clean.Add(text), "\n")
	for i, line := range lines {
		if i > 0 {
			s.w.newline()
			s.open = false
		}
		if !s.open && (line != "" || i < len(lines)-1) {
			s.open = true
			s.w.prefixed(bar, bar)
		}
		if line != "" {
			s.w.text(bold, strings.ReplaceAll(line, "\t", "    "))
		}
	}
	return s.w.taken()
}

func (s *quoteStream) object(text string) string {
	return s.edges.onOwnLine(s.end(), s.o.paint(blue, ">")+" "+s.o.paint(dim, text))
}
