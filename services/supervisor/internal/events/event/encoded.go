package event

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Encoded is an event for several recipients, with its shared encoding. Recipients must not change the event or its
// encoding, or append to it.
type Encoded struct {
	Event *supervisorv1.Event
	// Field is the shared encoding of the event: a field WatchEventsResponse.events, with its tag of one byte and its
	// length. Nil: each recipient encodes the event.
	Field []byte
}

// The field numbers of WatchEventsResponse.event and events, whose tags have one byte.
const (
	eventField  = 1
	eventsField = 2
)

var singleTag = protowire.AppendTag(nil, eventField, protowire.BytesType)

// Single returns a response with one event, from an Encoded.Field, in pieces.
func Single(field []byte) [][]byte { return [][]byte{singleTag, field[len(singleTag):]} }

// blockSize is the size of a block of encoded events, which can be sent as one piece.
const blockSize = 64 << 10

// Encoder encodes events consecutively in blocks. It is not safe for concurrent use, but its results may be read
// concurrently.
type Encoder struct{ block []byte }

// Encode returns an event with its encoding. Field is nil if the event cannot be encoded: the function Encode returns
// the reason.
func (e *Encoder) Encode(ev *supervisorv1.Event) Encoded {
	size := proto.Size(ev)
	if need := protowire.SizeTag(eventsField) + protowire.SizeBytes(size); cap(e.block)-len(e.block) < need {
		e.block = make([]byte, 0, max(blockSize, need))
	}
	from := len(e.block)
	block, err := appendField(e.block, ev, size)
	if err != nil {
		return Encoded{Event: ev}
	}
	e.block = block
	return Encoded{Event: ev, Field: block[from:]}
}

// Encode returns the encoding of an event, in the form of Encoded.Field, in separate memory.
func Encode(ev *supervisorv1.Event) ([]byte, error) { return appendField(nil, ev, proto.Size(ev)) }

func appendField(b []byte, ev *supervisorv1.Event, size int) ([]byte, error) {
	b = protowire.AppendTag(b, eventsField, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, ev)
}

// Join appends an encoding to pieces. If an Encoder wrote it directly after the last piece, it extends that piece.
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
