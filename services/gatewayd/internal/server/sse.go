package server

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/acphost/acphost/services/gatewayd/internal/relay"
)

// stream writes the frames of a reader as server-sent events, with their numbers as ids, until the client or the reader
// ends.
func stream(w http.ResponseWriter, r *http.Request, reader *relay.Reader) error {
	control := http.NewResponseController(w)
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-store")
	header.Set("X-Accel-Buffering", "no") // prevents proxies from buffering the stream
	w.WriteHeader(http.StatusOK)
	write := func(b []byte) error {
		if err := control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		return control.Flush()
	}
	// An id without data is no event. A client that loses the stream before the first event continues from it.
	buf := append(strconv.AppendUint([]byte("id: "), reader.At(), 10), "\n\n"...)
	if err := write(buf); err != nil {
		return err
	}
	for {
		quiet, cancel := context.WithTimeout(r.Context(), keepAlive)
		frames, number, ok := reader.Next(quiet)
		cancel()
		switch {
		case !ok || r.Context().Err() != nil:
			return nil //nolint:nilerr // the client has gone, or the connection has ended: neither is a failure to write
		case len(frames) == 0:
			if err := write([]byte(":\n\n")); err != nil {
				return err
			}
			continue
		}
		buf = buf[:0]
		for i, f := range frames {
			buf = appendEvent(buf, number+uint64(i), f)
		}
		if err := write(buf); err != nil {
			return err
		}
		if cap(buf) > 1<<20 { // do not keep a large buffer
			buf = nil
		}
	}
}

// appendEvent appends a frame as an event. A frame contains no line feed. A carriage return between its values would
// end the event's line, and let the frame's author add events.
func appendEvent(b []byte, number uint64, frame []byte) []byte {
	b = append(b, "id: "...)
	b = strconv.AppendUint(b, number, 10)
	b = append(b, "\ndata: "...)
	at := len(b)
	b = append(b, frame...)
	if bytes.IndexByte(frame, '\r') >= 0 || bytes.IndexByte(frame, '\n') >= 0 {
		for i, c := range b[at:] {
			if c == '\r' || c == '\n' {
				b[at+i] = ' '
			}
		}
	}
	return append(b, "\n\n"...)
}
