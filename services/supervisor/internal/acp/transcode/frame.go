package transcode

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

// MaxMessageBytes is the limit of a message under CallOptions, in both directions: 64 MiB, and room for the
// CallContext.
const MaxMessageBytes = 64<<20 + 64<<10

// Frame is a message as wire bytes, in pieces. The zero value receives a response: pass a pointer to it to a call with
// CallOptions. A Frame is not safe for concurrent use.
type Frame struct {
	// For a request: head is cut at refs.
	method *Method // nil for a response
	head   []byte
	refs   []ref

	// For a response.
	received mem.BufferSlice
	under    *mem.BufferSlice // the buffers that received refers to after its paths were replaced; else nil
	decoder  *decoder         // holds the memory of the pieces that were decoded from it
}

// ref is a piece that is inserted by reference before the byte at an index of a buffer.
type ref struct {
	at   int
	data []byte
}

// Len returns the message's length in bytes.
func (f *Frame) Len() int {
	n := len(f.head) + f.received.Len()
	for _, r := range f.refs {
		n += len(r.data)
	}
	return n
}

// Free releases the memory of a received frame. Pieces that were decoded from it must not be used any more. It may be
// called again. A frame that is not freed is collected by the garbage collector.
func (f *Frame) Free() {
	f.received.Free()
	f.received = nil
	if f.under != nil {
		f.under.Free()
		f.under = nil
	}
	if f.decoder != nil {
		f.decoder.release()
		f.decoder = nil
	}
}

// buffers returns the frame's pieces for gRPC.
func (f *Frame) buffers() mem.BufferSlice {
	if f.received != nil {
		f.received.Ref()
		return f.received
	}
	pieces := cut(make([][]byte, 0, 2*len(f.refs)+1), f.head, f.refs)
	bufs := make(mem.BufferSlice, len(pieces))
	for i, p := range pieces {
		bufs[i] = mem.SliceBuffer(p)
	}
	return bufs
}

// cut appends the pieces of buf and the pieces that are inserted by reference.
func cut(pieces [][]byte, buf []byte, refs []ref) [][]byte {
	from := 0
	for _, r := range refs {
		if r.at > from {
			pieces = append(pieces, buf[from:r.at:r.at])
			from = r.at
		}
		pieces = append(pieces, r.data)
	}
	if from < len(buf) {
		pieces = append(pieces, buf[from:len(buf):len(buf)])
	}
	return pieces
}

// CallOptions returns the options of a call whose request and response are Frames. Their content type is "proto", which
// every server supports.
func CallOptions() []grpc.CallOption {
	return []grpc.CallOption{
		grpc.ForceCodecV2(frameCodec{}),
		grpc.MaxCallRecvMsgSize(MaxMessageBytes),
		grpc.MaxCallSendMsgSize(MaxMessageBytes),
	}
}

// frameCodec passes frames unchanged.
type frameCodec struct{}

func (frameCodec) Name() string { return "proto" }

func (frameCodec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*Frame)
	if !ok {
		return nil, fmt.Errorf("transcode: cannot send a %T, only a *Frame", v)
	}
	return f.buffers(), nil
}

func (frameCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*Frame)
	if !ok {
		return fmt.Errorf("transcode: cannot receive into a %T, only into a *Frame", v)
	}
	f.Free()
	data.Ref()
	f.received = append(mem.BufferSlice(nil), data...)
	return nil
}
