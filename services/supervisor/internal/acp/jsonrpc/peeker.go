package jsonrpc

import "github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"

const (
	// maxPeekedName limits the raw bytes of a name that is compared: "method" with every character escaped fits.
	maxPeekedName = 64
	// maxPeekedValue limits the bytes of an id or method that is stored.
	maxPeekedValue = 1024
)

// A peeker finds the id and the method of a message that arrives in parts and is too long to be stored. It needs little
// memory for any message, and does not validate it.
type peeker struct {
	depth   int
	started bool // the first byte of the message was seen
	object  bool // it was a brace
	text    bool // inside of a string
	escape  bool // after a backslash
	value   bool // at depth 1: after a colon

	keep  bool   // the bytes are collected in token
	token []byte // the name, or the value of id or method
	over  bool   // token exceeds its limit
	name  name   // the member whose value follows

	ids, methods int
	id, method   []byte
}

// found returns the raw id and the unescaped method, each if it occurred exactly once.
func (p *peeker) found() (id, method []byte) {
	if p.ids == 1 {
		id = p.id
	}
	if p.methods == 1 {
		method = p.method
	}
	return id, method
}

// feed processes the next part.
func (p *peeker) feed(b []byte) {
	for i := 0; i < len(b); {
		if p.text {
			i = p.feedText(b, i)
			continue
		}
		c := b[i]
		i++
		if p.started && !p.object {
			return
		}
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case '"':
			p.text = true
			if p.depth == 1 && !p.value {
				p.collect(nameOther)
			}
			p.add('"')
		case '{', '[':
			p.drop()
			p.depth++
		case '}', ']':
			p.endMember()
			p.depth--
		case ',':
			p.endMember()
		case ':':
			if p.depth == 1 && !p.value {
				p.endName()
			}
		default:
			p.add(c)
		}
		if !p.started {
			p.started, p.object = true, c == '{'
		}
	}
}

// feedText processes the bytes of a string up to its end.
func (p *peeker) feedText(b []byte, i int) int {
	if p.escape {
		p.escape = false
		p.add(b[i])
		return i + 1
	}
	end := lex.PlainEnd(b, i)
	if p.keep && !p.over {
		for _, c := range b[i:min(end, i+maxPeekedValue+1)] {
			p.add(c)
		}
	}
	if end == len(b) {
		return end
	}
	switch b[end] {
	case '\\':
		p.escape = true
	case '"':
		p.text = false
	}
	p.add(b[end])
	return end + 1
}

// collect begins to collect a name, or the value of a member that is needed.
func (p *peeker) collect(n name) {
	p.keep, p.over, p.token, p.name = true, false, p.token[:0], n
}

// drop ends the collection of a name or a value that is not a scalar.
func (p *peeker) drop() {
	if p.keep {
		p.over = true
	}
}

func (p *peeker) add(c byte) {
	if !p.keep || p.over {
		return
	}
	limit := maxPeekedValue
	if p.name == nameOther {
		limit = maxPeekedName
	}
	if len(p.token) >= limit {
		p.over = true
		return
	}
	p.token = append(p.token, c)
}

// endName compares the collected name, and continues with its value.
func (p *peeker) endName() {
	p.value = true
	if !p.keep {
		return
	}
	p.keep = false
	if n := len(p.token); p.over || n < 2 || p.token[0] != '"' || p.token[n-1] != '"' {
		return
	}
	n, exact := envelopeName(unquote(p.token), false)
	if exact && (n == nameID || n == nameMethod) {
		p.collect(n)
	}
}

// endMember stores the collected value, if a member of the envelope ends here.
func (p *peeker) endMember() {
	if p.depth != 1 || !p.value {
		return
	}
	p.value = false
	if !p.keep {
		return
	}
	p.keep = false
	var value []byte
	if !p.over && len(p.token) > 0 {
		value = append(value, p.token...)
	}
	switch p.name {
	case nameID:
		p.ids++
		if scalar(value) && value[0] != 't' && value[0] != 'f' {
			p.id = value
		}
	case nameMethod:
		p.methods++
		if scalar(value) && value[0] == '"' {
			p.method = unquote(value)
		}
	}
}

// scalar reports whether value is one valid JSON scalar.
func scalar(value []byte) bool {
	var n lex.Nesting
	return len(value) > 0 && n.ValueEnd(value, 0, 0) == len(value)
}
