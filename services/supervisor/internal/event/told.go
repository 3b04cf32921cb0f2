package event

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Told is an event that many are sent. Neither the event nor its encoding is theirs to change, or to append to.
type Told struct {
	Event *supervisorv1.Event
	// Field is the event as it is encoded for all of them: as a field WatchEventsResponse.events, with its tag of one byte
	// and its length. Nil: each encodes it.
	Field []byte
}

// The numbers of WatchEventsResponse.event and events, whose tags have one byte.
const (
	eventField  = 1
	eventsField = 2
)

var singleTag = protowire.AppendTag(nil, eventField, protowire.BytesType)

// Single returns a response with the one event that a Told.Field has, in pieces.
func Single(field []byte) [][]byte { return [][]byte{singleTag, field[len(singleTag):]} }

// blockSize is how many bytes of encoded events stand in one piece of memory, so that they can be sent as one.
const blockSize = 64 << 10

// Encoder encodes events, one behind the other. It is not safe for concurrent use, but what it returned may be read meanwhile.
type Encoder struct{ block []byte }

// Told returns an event with its encoding. Field is nil if the event cannot be encoded: Encode says why.
func (e *Encoder) Told(ev *supervisorv1.Event) Told {
	size := proto.Size(ev)
	if need := protowire.SizeTag(eventsField) + protowire.SizeBytes(size); cap(e.block)-len(e.block) < need {
		e.block = make([]byte, 0, max(blockSize, need))
	}
	from := len(e.block)
	block, err := appendField(e.block, ev, size)
	if err != nil {
		return Told{Event: ev}
	}
	e.block = block
	return Told{Event: ev, Field: block[from:]}
}

// Encode returns an event as Told.Field has it, in memory of its own.
func Encode(ev *supervisorv1.Event) ([]byte, error) { return appendField(nil, ev, proto.Size(ev)) }

func appendField(b []byte, ev *supervisorv1.Event, size int) ([]byte, error) {
	b = protowire.AppendTag(b, eventsField, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, ev)
}

// Join appends an encoding to pieces. If an Encoder wrote it right behind the last piece, that piece becomes longer.
func Join(pieces [][]byte, field []byte) [][]byte {
	if n := len(pieces) - 1; n >= 0 && len(field) > 0 {
		last := pieces[n]
		if whole := len(last) + len(field); whole <= cap(last) && &last[:whole][len(last)] == &field[0] {
			pieces[n] = last[:whole]
			return pieces
		}
	}
	return append(pieces, field)
}
