package prompt

import (
	"slices"
	"time"
	"unicode/utf8"
)

// keyboard reads the keys of a terminal one by one, without echo. The terminal is in that state only while a keyboard
// is open. Close restores it, and waits. Earlier input is discarded, so that it does not answer a question that the
// user has not seen.
type keyboard interface {
	// Keys returns the channel of keys. It is closed when the terminal is closed.
	Keys() <-chan key
	Close()
}

// key is a key that was pressed.
type key struct {
	name keyName
	r    rune // for keyRune
	// together means that other keys arrived at the same time, as from a response of the terminal or a paste. Such a
	// key alone answers no question.
	together bool
}

type keyName int

const (
	keyNone keyName = iota // a key without a meaning
	keyRune
	keyEnter
	keyBackspace
	keyEscape
	keyInterrupt // Ctrl-C
	keyKill      // Ctrl-U: the whole line
)

// keyParser converts the output of a terminal to keys.
//
// A terminal responds to queries: with its name, its title, or the clipboard. Any process that can open the terminal's
// device, including an agent of the same user, can send queries, and the response arrives as if it had been typed. So
// nothing in a sequence is a key, even if a sequence is split between reads, nor are keys that arrive with a sequence
// or directly after it. Arrows and function keys are sequences, too, and have no meaning here.
type keyParser struct {
	part   []byte // incomplete bytes of a character
	state  keyState
	params []byte    // parameters of a control sequence
	mouse  int       // remaining characters of a mouse position
	paste  bool      // inside of a paste
	last   time.Time // time of the last read
	quiet  time.Time // until then there are no keys
}

type keyState int

const (
	keyGround       keyState = iota
	keyEscaped               // after ESC
	keyControl               // in a control sequence: ESC [ … letter
	keyShifted               // after ESC O
	keyString                // in a string: ESC P … ESC \, and similar
	keyStringEscape          // in a string, after ESC
)

const (
	// escapeTimeout is the maximum time between ESC and the rest of its sequence.
	escapeTimeout = 50 * time.Millisecond
	// sequenceTimeout limits the wait for the rest of a sequence, because a user may have begun one with Alt+P.
	sequenceTimeout = time.Second
	// quietTime is the time after a sequence in which there are no keys.
	quietTime = 100 * time.Millisecond
)

// parse returns the keys in the data of one read at the time now.
func (p *keyParser) parse(data []byte, now time.Time) []key {
	if p.state == keyEscaped && now.Sub(p.last) > escapeTimeout || now.Sub(p.last) > sequenceTimeout {
		p.state, p.paste, p.mouse, p.part = keyGround, false, 0, nil
	}
	p.last = now
	sequence := p.state != keyGround || p.paste || p.mouse > 0
	data = append(p.part, data...)
	p.part = nil
	var keys []key
	for len(data) > 0 {
		if !utf8.FullRune(data) {
			p.part = append([]byte(nil), data...)
			break
		}
		r, n := utf8.DecodeRune(data)
		if r == utf8.RuneError && n == 1 {
			r = rune(data[0]) // some terminals encode control characters in this way, without UTF-8
			if r >= 0xa0 {
				r = 0
			}
		}
		data = data[n:]
		if p.inSequence(r) {
			sequence = sequence || r != 0x1b
		} else if k := keyOf(r); k.name != keyNone {
			keys = append(keys, k)
		}
	}
	if p.state == keyEscaped && !sequence {
		keys = append(keys, key{name: keyEscape})
	}
	if sequence {
		p.quiet = now.Add(quietTime)
	}
	if now.Before(p.quiet) {
		keys = slices.DeleteFunc(keys, func(k key) bool { return k.name != keyInterrupt })
	}
	for i := range keys {
		keys[i].together = len(keys) > 1
	}
	return keys
}

// inSequence processes a character, and reports whether it belongs to a sequence.
func (p *keyParser) inSequence(r rune) bool {
	if r == 0x18 || r == 0x1a { // CAN and SUB end every sequence
		in := p.state != keyGround
		p.state = keyGround
		return in
	}
	switch p.state {
	case keyGround:
		switch {
		case r == 0x1b:
			p.state = keyEscaped
		case r >= 0x80 && r < 0xa0: // a C1 control character means ESC and a letter
			p.begin(r - 0x40)
		case p.mouse > 0:
			p.mouse--
		default:
			return p.paste
		}
	case keyEscaped, keyStringEscape:
		p.begin(r)
	case keyShifted:
		p.state = keyGround
	case keyControl:
		switch {
		case r == 0x1b:
			p.state = keyEscaped
		case r < 0x40 || r > 0x7e:
			if len(p.params) < 16 {
				p.params = append(p.params, byte(r))
			}
		default:
			p.state = keyGround
			switch string(p.params) + string(r) {
			case "M":
				p.mouse = 3
			case "200~":
				p.paste = true
			case "201~":
				p.paste = false
			}
		}
	case keyString:
		switch r {
		case 0x1b:
			p.state = keyStringEscape
		case 0x07, 0x9c:
			p.state = keyGround
		}
	}
	return true
}

// begin begins the sequence of ESC and a character.
func (p *keyParser) begin(r rune) {
	switch r {
	case 0x1b:
		p.state = keyEscaped
	case '[':
		p.state, p.params = keyControl, nil
	case 'N', 'O':
		p.state = keyShifted
	case 'P', 'X', ']', '^', '_':
		p.state = keyString
	default: // Alt and a key, or the end of a string
		p.state = keyGround
	}
}

// keyOf returns the key for a character.
func keyOf(r rune) key {
	switch r {
	case '\r', '\n':
		return key{name: keyEnter}
	case 0x7f, 0x08:
		return key{name: keyBackspace}
	case 0x03:
		return key{name: keyInterrupt}
	case 0x15:
		return key{name: keyKill}
	}
	if r < 0x20 || r == utf8.RuneError {
		return key{}
	}
	return key{name: keyRune, r: r}
}
