package event

import (
	"fmt"

	"github.com/acphost/acphost/internal/limits"
	"github.com/acphost/acphost/internal/shell"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

const (
	// keptMember is the limit of a kept member of a shortened message, in bytes, and keptMembers that of all kept
	// members together.
	keptMember, keptMembers = 64 << 10, 1 << 20
	// shortenDepth is the depth of the search for members: the update of a session/update, and its content.
	shortenDepth = 4
)

// Shorten replaces the message of a frame that is over limits.Whole by one with only the small members, and records its
// size in Omitted. Its ids, kind, status and stop reason are small, so it has the same meaning except for its content.
// A text becomes empty, because a text block without one is invalid. The frame's original bytes are not changed.
func Shorten(f *frame.Frame) {
	size := len(f.Line)
	for _, b := range f.Rest {
		size += len(b)
	}
	if f.Omitted > 0 || size <= limits.Whole {
		return
	}
	room := keptMembers
	f.Line, f.Rest, f.Omitted = append(shortObject(nil, joined(f.Line, f.Rest), shortenDepth, &room), '\n'), nil, size
}

// shortObject appends an object's small members; for a value that is not an object, an empty object.
func shortObject(dst, v []byte, depth int, room *int) []byte {
	dst = append(dst, '{')
	first := true
	members(v, func(name, v []byte) {
		deeper := len(v) > keptMember
		if deeper && v[0] == '"' && string(name) == "text" {
			v, deeper = []byte(`""`), false
		}
		if deeper && (v[0] != '{' || depth == 0) || len(name) > keptMember || !deeper && len(name)+len(v) > *room {
			return
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(append(append(dst, '"'), name...), `":`...)
		if deeper {
			dst = shortObject(dst, v, depth-1, room)
			return
		}
		*room -= len(name) + len(v)
		dst = append(dst, v...)
	})
	return append(dst, '}')
}

// omitted emits an event about the missing large members of a message.
func (d *Decoder) omitted(session string, f *frame.Frame) {
	if f.Omitted == 0 || session == "" {
		return
	}
	d.emit(&supervisorv1.Event{SessionId: session, Event: &supervisorv1.Event_Gap{Gap: &supervisorv1.Gap{Frames: 1, Reason: fmt.Sprintf(
		"a message of %d bytes is shown without its large parts, because it has more than %d; \"acphost sessions export %s --format ndjson\" prints it whole",
		f.Omitted, limits.Whole, shell.Quote([]string{session}))}}})
}
