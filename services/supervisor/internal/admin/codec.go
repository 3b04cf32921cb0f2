package admin

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that codec wraps
	"google.golang.org/grpc/mem"
)

// encoded is an encoded response, in pieces that may be shared with other responses: gRPC does not copy them. They must
// not change any more.
type encoded struct{ pieces mem.BufferSlice }

func encodedOf(pieces ...[]byte) *encoded {
	e := &encoded{pieces: make(mem.BufferSlice, len(pieces))}
	for i, piece := range pieces {
		e.pieces[i] = mem.SliceBuffer(piece)
	}
	return e
}

// codec is gRPC's protobuf codec; it also accepts encoded responses.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if e, ok := v.(*encoded); ok {
		return e.pieces, nil
	}
	return c.CodecV2.Marshal(v)
}
