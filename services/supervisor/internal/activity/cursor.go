package activity

import (
	"strconv"
	"strings"
)

// now is the cursor that means: what happens next.
const now = "now"

// position is a cursor, taken apart: an event of a frame of a supervisor.
type position struct {
	instance string
	seq      uint64
	text     string
}

// cursor names the events of a frame: the supervisor's instance and the frame's number.
func (h *Hub) cursor(seq uint64) string { return cursorOf(h.opts.Instance, seq) }

func cursorOf(instance string, seq uint64) string {
	return instance + "-" + strconv.FormatUint(seq, 10)
}

// parseCursor takes a cursor apart. One of several events of a frame has its place in it behind a dot.
func parseCursor(text string) (position, bool) {
	i := strings.LastIndexByte(text, '-')
	if i <= 0 {
		return position{}, false
	}
	number, place, dotted := strings.Cut(text[i+1:], ".")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || seq == 0 {
		return position{}, false
	}
	if dotted {
		if _, err := strconv.ParseUint(place, 10, 32); err != nil {
			return position{}, false
		}
	}
	return position{instance: text[:i], seq: seq, text: text}, true
}
