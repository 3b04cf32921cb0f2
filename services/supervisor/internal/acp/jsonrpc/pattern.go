package jsonrpc

import "github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"

// pattern is a scanned line without one of its strings. Updates are frequent, and most differ from the previous one
// only in their text. If a line has the same bytes before and after the string, and the bytes between them are a valid
// string body, the line is valid JSON, and its members are at the same positions. The zero pattern matches no line.
type pattern struct {
	before, behind []byte // before ends with the opening quote, behind begins with the closing one
	kind           Kind
	found          spans
}

// maxPattern limits the bytes of a line that are stored before and after the string.
const maxPattern = 1 << 10

// match fills m and returns true if the line matches the pattern. Otherwise it does not change m.
func (p *pattern) match(line []byte, m *Message) bool {
	from, to := len(p.before), len(line)-len(p.behind)
	if from == 0 || from > to || string(line[to:]) != string(p.behind) || string(line[:from]) != string(p.before) {
		return false
	}
	if end, _, _ := lex.StringEnd(line, from); end != to+1 {
		return false
	}
	*m = Message{
		Raw: line, Kind: p.kind, ID: p.found.id.of(line), Method: p.found.method.of(line), Params: p.found.params.of(line),
		SessionID: p.found.session.of(line), Update: p.found.update.of(line),
	}
	return true
}

// remember sets the pattern to a scanned message, if all its members alias the line. The string is the text of the
// update's content. If none exists, the pattern is unchanged.
func (p *pattern) remember(m *Message, st *state) {
	line := m.Raw
	at := lex.Find(line, st.content, "text")
	if at < 0 || lex.At(line, at) != '"' {
		return
	}
	end, _, _ := lex.StringEnd(line, at+1)
	if at+1 > maxPattern || len(line)-(end-1) > maxPattern {
		return
	}
	p.before = append(p.before[:0], line[:at+1]...)
	p.behind = append(p.behind[:0], line[end-1:]...)
	p.kind, p.found = m.Kind, st.found
	for _, s := range [...]*span{&p.found.id, &p.found.method, &p.found.params, &p.found.session, &p.found.update} {
		for _, i := range [...]*int{&s.from, &s.to} {
			if *i > at {
				*i -= len(line)
			}
		}
	}
}
