package prompt

import (
	"slices"
	"time"
	"unicode/utf8"
)

// keyboard is a terminal whose keys are read one by one, without an echo. Only while one is open is the terminal in that
// state; Close puts it back as it was, and waits. What was typed before it was opened is dropped, so that nobody answers a
// question that he has not seen.
type keyboard interface {
	// Keys are the keys; it is closed when the terminal is gone.
	Keys() <-chan key
	Close()
}

// key is a key that was pressed.
type key struct {
	name keyName
	r    rune // for keyRune
	// together: others came at the same moment, as from a terminal that answers with plain text, or from a paste. Such a key
	// answers no question by itself.
	together bool
}

type keyName int

const (
	keyNone keyName = iota // one that means nothing here
	keyRune
	keyEnter
	keyBackspace
	keyEscape
	keyInterrupt // Ctrl-C
	keyKill      // Ctrl-U: the whole line
)

// keyParser turns what a terminal sends into keys.
//
// A terminal answers whoever asks it: its name, its title, the clipboard. Whatever can open the terminal's device, an agent
// of the same user among them, can ask, and the answer comes as though it had been typed. So nothing that comes inside of a
// sequence is a key, however it is cut into reads, nor is what comes with one or right behind it. Arrows and function keys
// are sequences too, and mean nothing here.
type keyParser struct {
	part   []byte // the beginning of a character
	state  keyState
	params []byte    // of a control sequence
	mouse  int       // characters of a mouse's place that follow
	paste  bool      // what comes was pasted
	last   time.Time // when something was last read
	quiet  time.Time // until when nothing is a key
}

type keyState int

const (
	keyGround       keyState = iota
	keyEscaped               // behind ESC
	keyControl               // in a control sequence: ESC [ … letter
	keyShifted               // behind ESC O
	keyString                // in a string: ESC P … ESC \, and its sisters
	keyStringEscape          // in a string, behind ESC
)

const (
	// escapePatience is how long what follows an ESC belongs to it.
	escapePatience = 50 * time.Millisecond
	// sequencePatience is how long the rest of a sequence is waited for: a person may have begun one, with Alt+P.
	sequencePatience = time.Second
	// quietTime is how long nothing is a key behind a sequence.
	quietTime = 100 * time.Millisecond
)

// parse returns the keys in what was read at once, now.
func (p *keyParser) parse(data []byte, now time.Time) []key {
	if p.state == keyEscaped && now.Sub(p.last) > escapePatience || now.Sub(p.last) > sequencePatience {
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
			r = rune(data[0]) // as terminals say control characters that are not UTF-8
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

// inSequence takes a character, and reports whether it belongs to a sequence.
func (p *keyParser) inSequence(r rune) bool {
	if r == 0x18 || r == 0x1a { // CAN and SUB end any sequence
		in := p.state != keyGround
		p.state = keyGround
		return in
	}
	switch p.state {
	case keyGround:
		switch {
		case r == 0x1b:
			p.state = keyEscaped
		case r >= 0x80 && r < 0xa0: // a control character of its own for ESC and a letter
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

// begin begins the sequence that ESC and a character stand for.
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
	default: // Alt and a key; the end of a string
		p.state = keyGround
	}
}

// keyOf is the key that a character is.
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
