package event

import (
	"fmt"

	"github.com/acphost/acphost/internal/limits"
	"github.com/acphost/acphost/internal/shell"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
)

const (
	// keptMember is the size up to which a member of a shortened message is kept, in bytes, and keptMembers is that of all.
	keptMember, keptMembers = 64 << 10, 1 << 20
	// shortenDepth is how deep members are looked for: the update of a session/update, the content of that.
	shortenDepth = 4
)

// Shorten replaces the message of a frame that is over limits.Whole by one that has its small members alone, and notes its
// size in Omitted. Its ids, its kind, its status and its stop reason are small, so it means the same to everything that does
// not need its content. A text becomes empty, since a block of text without one means nothing. The frame's own bytes are not changed.
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

// shortObject appends an object's small members. What is no object is none without members.
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

// omitted tells that the events of a message lack its large members.
func (d *Decoder) omitted(session string, f *frame.Frame) {
	if f.Omitted == 0 || session == "" {
		return
	}
	d.tell(&supervisorv1.Event{SessionId: session, Event: &supervisorv1.Event_Gap{Gap: &supervisorv1.Gap{Frames: 1, Reason: fmt.Sprintf(
		"a message of %d bytes is told without its large parts, since it has more than %d; \"acphost sessions export %s --format ndjson\" prints it whole",
		f.Omitted, limits.Whole, shell.Quote([]string{session}))}}})
}
