package replay

import (
	"strconv"
	"strings"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Now is the cursor for events that happen from now on.
const Now = "now"

// Position is a parsed cursor: an event of a frame of a supervisor.
type Position struct {
	Instance string
	Seq      uint64
	Text     string
}

// Cursor returns the cursor of the events of a frame: the supervisor's instance and the frame's number.
func Cursor(instance string, seq uint64) string {
	return instance + "-" + strconv.FormatUint(seq, 10)
}

// Parse parses a cursor. If a frame has several events, the cursor ends with a dot and the index of the event.
func Parse(text string) (Position, bool) {
	i := strings.LastIndexByte(text, '-')
	if i <= 0 {
		return Position{}, false
	}
	number, place, dotted := strings.Cut(text[i+1:], ".")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || seq == 0 {
		return Position{}, false
	}
	if dotted {
		if _, err := strconv.ParseUint(place, 10, 32); err != nil {
			return Position{}, false
		}
	}
	return Position{Instance: text[:i], Seq: seq, Text: text}, true
}

// Begin returns the position of a request's cursor. It is zero if the request has none.
func Begin(req *supervisorv1.WatchSessionRequest) (at Position, err error) {
	if req.GetSessionId() == "" {
		return at, fault.New(fault.Invalid, "the request names no session")
	}
	if c := req.GetCursor(); c != "" && c != Now {
		var ok bool
		if at, ok = Parse(c); !ok {
			return at, fault.New(fault.Invalid, "%q is not a cursor; use the cursor of a received event, \"now\", or none", c)
		}
	}
	return at, nil
}
