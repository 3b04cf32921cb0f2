package jsonrpc

import (
	"io"
	"net"
	"os"
)

func newSink(w io.Writer) sink {
	switch w := w.(type) {
	case *os.File:
		return newFileSink(w)
	case net.Conn:
		return connSink{w}
	default:
		return &plainSink{w: w}
	}
}

// maxKept limits the buffer that a plainSink keeps for its next frame.
const maxKept = 64 << 10

// plainSink joins buffers before it writes them.
type plainSink struct {
	w      io.Writer
	joined []byte
}

func (s *plainSink) ready() bool { return true }

func (s *plainSink) write(bufs [][]byte) error {
	if len(bufs) == 1 {
		return writeAll(s.w, bufs[0])
	}
	joined := s.joined[:0]
	for _, b := range bufs {
		joined = append(joined, b...)
	}
	err := writeAll(s.w, joined)
	if s.joined = joined; cap(joined) > maxKept {
		s.joined = nil
	}
	return err
}

func writeAll(w io.Writer, b []byte) error {
	n, err := w.Write(b)
	if err == nil && n < len(b) {
		return io.ErrShortWrite
	}
	return err
}

// connSink lets package net write several buffers at once.
type connSink struct{ conn net.Conn }

func (s connSink) ready() bool { return true }

func (s connSink) write(bufs [][]byte) error {
	if len(bufs) == 1 {
		return writeAll(s.conn, bufs[0])
	}
	consumed := append(net.Buffers(nil), bufs...)
	_, err := consumed.WriteTo(s.conn)
	return err
}
