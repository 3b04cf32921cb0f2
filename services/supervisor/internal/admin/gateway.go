package admin

import (
	"bytes"
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Gateway connects agents with remote clients. Its methods are called concurrently, for authorized callers. Errors are
// those of package fault.
type Gateway interface {
	// OpenAgent starts an agent and connects it with a client until the agent, the client or ctx ends. It reads the
	// client's messages from in and writes the agent's to out, in whole lines or parts of lines. It calls opened once,
	// when the agent runs. A read and a write may still be active when it returns.
	OpenAgent(ctx context.Context, open *supervisorv1.GatewayOpen, in io.Reader, out io.Writer, opened func(*supervisorv1.Agent) error) error
}

// gatewayService serves a Gateway.
type gatewayService struct {
	supervisorv1.UnsafeGatewayServiceServer
	gateway Gateway // nil: Options.refused rejects all calls
}

type frameStream = grpc.BidiStreamingServer[supervisorv1.OpenAgentRequest, supervisorv1.OpenAgentResponse]

func (s *gatewayService) OpenAgent(stream frameStream) error {
	first, err := stream.Recv()
	switch {
	case errors.Is(err, io.EOF):
		return status.Error(codes.InvalidArgument, "open: the first message must name the agent to open, and none was received")
	case err != nil:
		return err
	case first.GetOpen() == nil:
		return status.Error(codes.InvalidArgument, "open: the first message must name the agent to open")
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	in := &frameReader{recv: stream.Recv}
	out := &frameWriter{ctx: ctx, send: stream.Send, opened: make(chan struct{})}
	return s.gateway.OpenAgent(ctx, first.GetOpen(), in, out, func(a *supervisorv1.Agent) error {
		defer close(out.opened)
		return stream.Send(&supervisorv1.OpenAgentResponse{Part: &supervisorv1.OpenAgentResponse_Opened{Opened: &supervisorv1.GatewayOpened{Agent: a}}})
	})
}

// frameReader reads a stream's frames as lines. It is for one goroutine.
type frameReader struct {
	recv   func() (*supervisorv1.OpenAgentRequest, error)
	frames [][]byte
	err    error
}

func (r *frameReader) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	for len(r.frames) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		req, err := r.recv()
		if err == nil && req.GetOpen() != nil {
			err = status.Error(codes.InvalidArgument, "open: only the first message opens an agent")
		}
		if r.err = err; err == nil {
			r.frames = req.GetFrames().GetFrames()
		}
	}
	for len(r.frames) > 0 && n < len(b) {
		taken := copy(b[n:], r.frames[0])
		n += taken
		r.frames[0] = r.frames[0][taken:]
		if len(r.frames[0]) == 0 && n < len(b) {
			b[n] = '\n'
			n++
			r.frames[0] = nil
			r.frames = r.frames[1:]
		}
	}
	return n, nil
}

// frameWriter sends lines as a stream's frames, once the agent is opened. It is not safe for concurrent use.
type frameWriter struct {
	ctx     context.Context // ends with the call
	send    func(*supervisorv1.OpenAgentResponse) error
	opened  chan struct{}
	partial []byte // the start of an incomplete line
	frames  supervisorv1.Frames
}

// maxSent is the maximum size of the frames in one message, except for a single larger frame, so that few bytes wait
// for a slow reader.
const maxSent = 64 << 10

// Write returns when the frames are handed over. It blocks while the reader is behind.
func (w *frameWriter) Write(b []byte) (int, error) {
	select {
	case <-w.opened:
	case <-w.ctx.Done():
		return 0, w.ctx.Err()
	}
	rest, size := b, 0
	for len(rest) > 0 {
		line, after, whole := bytes.Cut(rest, []byte{'\n'})
		if !whole {
			w.partial = append(w.partial, line...)
			break
		}
		rest = after
		if len(w.partial) > 0 {
			line = append(w.partial, line...)
			w.partial = nil
		}
		if len(line) == 0 {
			continue
		}
		if size > 0 && size+len(line) > maxSent {
			if err := w.flush(); err != nil {
				return 0, err
			}
			size = 0
		}
		w.frames.Frames = append(w.frames.Frames, line)
		size += len(line)
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	return len(b), nil
}

// flush sends the collected frames. gRPC has encoded them when Send returns, so that the buffer can be reused.
func (w *frameWriter) flush() error {
	if len(w.frames.GetFrames()) == 0 {
		return nil
	}
	if err := w.ctx.Err(); err != nil { // the stream must not be used after the call has ended
		return err
	}
	err := w.send(&supervisorv1.OpenAgentResponse{Part: &supervisorv1.OpenAgentResponse_Frames{Frames: &w.frames}})
	clear(w.frames.Frames)
	w.frames.Frames = w.frames.GetFrames()[:0]
	return err
}
