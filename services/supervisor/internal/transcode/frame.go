package transcode

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

// MaxMessageBytes is the largest message that CallOptions let through, in either direction: 64 MiB, and room for the
// CallContext.
const MaxMessageBytes = 64<<20 + 64<<10

// Frame is a message as wire bytes, in pieces. The zero value receives a response: hand a pointer to it to a call that is
// made with CallOptions. A frame is not safe for concurrent use.
type Frame struct {
	// A request: head is cut at refs.
	method *Method // nil: a response
	head   []byte
	refs   []ref

	// A response.
	received mem.BufferSlice
	under    *mem.BufferSlice // what received refers to, if its paths were replaced; nil: they were not
	decoder  *decoder         // holds the memory of the pieces that were made of it
}

// ref is a piece that stands in a buffer by reference, before the byte at the index.
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

// Free gives back the memory of a received frame. Pieces that were made of it must not be used any more. It may be
// called again, and a frame that is never freed is only slower to collect.
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

// cut appends the pieces of buf and of what stands in it by reference.
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

// CallOptions are the options of a call whose request and response are Frames. They go over the wire as "proto", which
// every server speaks.
func CallOptions() []grpc.CallOption {
	return []grpc.CallOption{
		grpc.ForceCodecV2(frameCodec{}),
		grpc.MaxCallRecvMsgSize(MaxMessageBytes),
		grpc.MaxCallSendMsgSize(MaxMessageBytes),
	}
}

// frameCodec hands frames over as they are.
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
