package main

import "unicode/utf8"

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

// keyParser turns what a terminal sends into keys. Sequences, as arrows and functions send them, mean nothing here.
type keyParser struct {
	part []byte // the beginning of a character
}

// parse returns the keys in what was read at once.
func (p *keyParser) parse(data []byte) []key {
	data = append(p.part, data...)
	p.part = nil
	var keys []key
	for len(data) > 0 {
		switch c := data[0]; {
		case c == 0x1b && len(data) > 1:
			data = data[sequence(data):]
			continue
		case c == 0x1b:
			keys = append(keys, key{name: keyEscape})
		case c == '\r', c == '\n':
			keys = append(keys, key{name: keyEnter})
		case c == 0x7f, c == 0x08:
			keys = append(keys, key{name: keyBackspace})
		case c == 0x03:
			keys = append(keys, key{name: keyInterrupt})
		case c == 0x15:
			keys = append(keys, key{name: keyKill})
		case c < 0x20:
		default:
			if !utf8.FullRune(data) {
				p.part = append([]byte(nil), data...)
				return keys
			}
			r, n := utf8.DecodeRune(data)
			if r != utf8.RuneError {
				keys = append(keys, key{name: keyRune, r: r})
			}
			data = data[n:]
			continue
		}
		data = data[1:]
	}
	return keys
}

// sequence is how long the sequence that data begins with is.
func sequence(data []byte) int {
	if data[1] != '[' && data[1] != 'O' {
		return 2 // Alt and a key
	}
	for i := 2; i < len(data); i++ {
		if data[i] >= 0x40 && data[i] <= 0x7e {
			return i + 1
		}
	}
	return len(data)
}
