// Package confirm verifies that a person, not a program, approves an action at a terminal.
//
// A process of the same user, such as an agent, can open the terminal's device. It can change the terminal's settings, take
// away typed characters, and make the terminal answer questions, so that a key arrives that nobody pressed. It cannot see the
// screen. So the user confirms with letters that stand on the screen and are new each time.
package confirm

import (
	"crypto/rand"
	"strings"
)

const (
	// letters are those that are not taken for others.
	letters = "abcdefghjkmnpqrstuvwxyz"
	// least is how many letters there are at first, most how many at last. With each wrong one there is one more, so that
	// whoever guesses has, all tries together, a chance of 1 in 500.
	least, most = 2, 8
)

// Codes are the codes of one terminal. The zero value is ready. It is for one goroutine.
type Codes struct {
	// Draw returns n letters that nobody can guess. Nil: random ones.
	Draw  func(n int) string
	wrong int
}

// Code is a code that is being typed.
type Code struct {
	of    *Codes
	text  string
	typed int
}

// New returns a new code.
func (c *Codes) New() *Code {
	draw := c.Draw
	if draw == nil {
		draw = random
	}
	return &Code{of: c, text: draw(min(least+c.wrong, most))}
}

// Text is what has to be typed.
func (c *Code) Text() string { return c.text }

// Typed is what was typed of it.
func (c *Code) Typed() string { return c.text[:c.typed] }

// Key takes a key's text. It reports whether the whole code was typed, and whether the code still stands: after a wrong key
// it does not, and the next one is longer.
func (c *Code) Key(text string) (done, stands bool) {
	if text == "" || !strings.HasPrefix(c.text[c.typed:], text) {
		c.of.wrong++
		return false, false
	}
	c.typed += len(text)
	return c.typed == len(c.text), true
}

func random(n int) string {
	text := make([]byte, 0, n)
	for len(text) < n {
		var b [1]byte
		_, _ = rand.Read(b[:]) // never fails
		if i := int(b[0]); i < 256/len(letters)*len(letters) {
			text = append(text, letters[i%len(letters)])
		}
	}
	return string(text)
}
