package journal

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// lineMaker formats records as lines. Not safe for concurrent use.
type lineMaker struct {
	content bool
	second  int64  // of stamp
	stamp   []byte // the formatted time up to its fraction
	scan    acp.Scanner
	msg     jsonrpc.Message
}

// updateHead is the maximum length of an update's line without the update.
const updateHead = len(`{"t":"2006-01-02T15:04:05.999999999Z","n":18446744073709551615`+updateMiddle) + len("}\n")

const updateMiddle = `,"dir":"agent-to-front","method":"session/update","frame":`

// updateMaker formats updates as lines. The queue's lock guards it.
type updateMaker struct {
	lines lineMaker
	at    int64  // of head
	head  []byte // the beginning of a line with that time: frames that were read together have the same time
}

// line appends the line of an update, equal to that of lineMaker.frame.
func (m *updateMaker) line(b []byte, f *frame.Frame, at int64) []byte {
	if m.head == nil || at != m.at {
		m.at = at
		m.head = m.lines.time(append(m.head[:0], `{"t":`...), at)
	}
	b = append(b, m.head...)
	if f.Seq != 0 {
		b = appendUint(append(b, `,"n":`...), f.Seq)
	}
	b = append(b, updateMiddle...)
	b = append(b, f.Line...)
	for _, rest := range f.Rest {
		b = append(b, rest...)
	}
	for {
		switch b[len(b)-1] {
		case '\n', '\r', ' ', '\t':
			b = b[:len(b)-1]
			continue
		}
		return append(b, '}', '\n')
	}
}

// readUpdate parses a line in the form of updateMaker; false if the line has another form. Most lines have this form,
// and general JSON parsing takes many times as long. It does not check the frame itself.
func readUpdate(line []byte, e *Entry) bool {
	const begin, stamp = `{"t":"`, "2006-01-02T15:04:05.999999999Z"
	if len(line) < updateHead || string(line[:len(begin)]) != begin || line[len(begin)+len(stamp)] != '"' {
		return false
	}
	at, ok := readTime(line[len(begin) : len(begin)+len(stamp)])
	rest := line[len(begin)+len(stamp)+1:]
	var n uint64
	if number, found := bytes.CutPrefix(rest, []byte(`,"n":`)); found {
		digits := 0
		for digits < len(number) && number[digits] >= '0' && number[digits] <= '9' && digits < 19 {
			n = n*10 + uint64(number[digits]-'0')
			digits++
		}
		rest = number[digits:]
	}
	frame, found := bytes.CutPrefix(rest, []byte(updateMiddle))
	frame, whole := bytes.CutSuffix(frame, []byte("}"))
	if !ok || !found || !whole || len(frame) < 2 || frame[0] != '{' || frame[len(frame)-1] != '}' {
		return false
	}
	e.Time, e.N, e.Frame = at, n, frame
	e.Dir, e.Method = "agent-to-front", acp.MethodSessionUpdate
	return true
}

// readTime parses a time in the form of lineMaker.
func readTime(b []byte) (time.Time, bool) {
	ok := b[4] == '-' && b[7] == '-' && b[10] == 'T' && b[13] == ':' && b[16] == ':' && b[19] == '.' && b[29] == 'Z'
	number := func(from, to int) (n int) {
		for _, c := range b[from:to] {
			ok = ok && c >= '0' && c <= '9'
			n = n*10 + int(c-'0')
		}
		return n
	}
	year, month, day := number(0, 4), number(5, 7), number(8, 10)
	hour, minute, second, nanos := number(11, 13), number(14, 16), number(17, 19), number(20, 29)
	return time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC), ok
}

// valid converts a run of such lines to valid JSON: lines that are not UTF-8 are encoded in base64.
func valid(text []byte) []byte {
	if utf8.Valid(text) {
		return text
	}
	const middle = `,"frame":`
	var out []byte
	for line := range bytes.Lines(text) {
		if i := bytes.Index(line, []byte(middle)); !utf8.Valid(line) && i >= 0 {
			out = append(append(out, line[:i]...), `,"base64":"`...)
			out = base64.StdEncoding.AppendEncode(out, line[i+len(middle):len(line)-len("}\n")])
			line = []byte("\"}\n")
		}
		out = append(out, line...)
	}
	return out
}

// time appends a time in RFC 3339, with nanoseconds, in UTC.
func (m *lineMaker) time(b []byte, at int64) []byte {
	second, nanos := at/1e9, at%1e9
	if nanos < 0 {
		second, nanos = second-1, nanos+1e9
	}
	if m.stamp == nil || second != m.second {
		m.second = second
		m.stamp = time.Unix(second, 0).UTC().AppendFormat(m.stamp[:0], "2006-01-02T15:04:05.")
	}
	b = append(append(b, '"'), m.stamp...)
	var digits [9]byte
	for i := 8; i >= 0; i-- {
		digits[i] = byte('0' + nanos%10)
		nanos /= 10
	}
	return append(append(b, digits[:]...), 'Z', '"')
}

// frame appends a frame's line. answers is the method of the answered request.
func (m *lineMaker) frame(b []byte, r *record, answers string) []byte {
	b = m.time(append(b, `{"t":`...), r.at)
	if r.seq != 0 {
		b = appendUint(append(b, `,"n":`...), r.seq)
	}
	b = append(append(append(b, `,"dir":"`...), r.dir.String()...), '"')
	if r.handler != "" {
		b = jsonrpc.AppendString(append(b, `,"handler":`...), r.handler)
	}
	if r.method != nil {
		b = appendText(append(b, `,"method":`...), r.method)
	}
	if answers != "" {
		b = jsonrpc.AppendString(append(b, `,"answers":`...), answers)
	}
	line := bytes.TrimSpace(r.line)
	if !m.content {
		return append(m.about(b, r, line), '}', '\n')
	}
	switch {
	case !utf8.Valid(line):
		b = append(b, `,"base64":"`...)
		b = base64.StdEncoding.AppendEncode(b, line)
		b = append(b, '"')
	case r.scanned && len(line) > 0:
		b = append(append(b, `,"frame":`...), line...)
	default:
		b = jsonrpc.AppendString(append(b, `,"frame":`...), string(line))
	}
	return append(b, '}', '\n')
}

// about appends the metadata of a frame, without its content.
func (m *lineMaker) about(b []byte, r *record, line []byte) []byte {
	if r.id != nil {
		b = append(append(b, `,"id":`...), cleaned(r.id)...)
	}
	if r.session != nil {
		b = appendText(append(b, `,"session":`...), r.session)
	}
	b = appendUint(append(b, `,"size":`...), uint64(len(line)))
	if !r.scanned || string(r.method) != acp.MethodSessionUpdate {
		return b
	}
	if m.scan.Scan(line, &m.msg) != nil {
		return b
	}
	b = appendText(append(b, `,"update":`...), m.msg.Update)
	if k := acp.UpdateKind(m.msg.Update); k != acp.UpdateToolCall && k != acp.UpdateToolCallUpdate {
		return b
	}
	update := acp.Get(line, "params", "update")
	for _, part := range [...]struct{ name, member string }{
		{"tool", "toolCallId"}, {"kind", "kind"}, {"status", "status"},
	} {
		if v, ok := acp.String(acp.Get(update, part.member)); ok {
			b = jsonrpc.AppendString(append(append(append(b, `,"`...), part.name...), `":`...), v)
		}
	}
	return b
}

// lost appends the line of a gap.
func (m *lineMaker) lost(b []byte, g *gap, now int64) []byte {
	b = m.time(append(b, `{"t":`...), now)
	if g.last != 0 {
		b = appendUint(append(b, `,"n":`...), g.last)
		b = appendUint(append(b, `,"n_first":`...), g.first)
	}
	b = appendUint(append(b, `,"dropped":`...), g.frames)
	b = appendUint(append(b, `,"bytes":`...), g.bytes)
	b = m.time(append(b, `,"from":`...), g.from)
	b = m.time(append(b, `,"to":`...), g.to)
	b = jsonrpc.AppendString(append(b, `,"why":`...), g.why)
	return append(b, '}', '\n')
}

// note appends a line about the journal itself.
func (m *lineMaker) note(b []byte, now int64, text string) []byte {
	b = m.time(append(b, `{"t":`...), now)
	b = jsonrpc.AppendString(append(b, `,"note":`...), text)
	return append(b, '}', '\n')
}

func appendText(b, text []byte) []byte {
	for _, c := range text {
		if c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return jsonrpc.AppendString(b, string(text))
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// cleaned returns an id as JSON that all readers accept.
func cleaned(id []byte) []byte {
	if utf8.Valid(id) {
		return id
	}
	return jsonrpc.AppendString(nil, string(id))
}

func appendUint(b []byte, n uint64) []byte { return strconv.AppendUint(b, n, 10) }
