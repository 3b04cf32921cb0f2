package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/coder/acp-go-sdk"
)

const (
	// libraryLine is the longest line that the library is given, in bytes. It ends the connection for one of more than
	// 10 MiB.
	libraryLine = 8 << 20
	// longestLine is the longest line that is taken: acphost's default (limits.max_message_bytes), and the line feed.
	longestLine = 100<<20 + 1
)

// longLines reads lines for the library, which rejects lines of more than 10 MiB: it passes the library a short line in
// place of a long one, and keeps the params for the handler.
type longLines struct {
	in   *bufio.Reader
	log  *slog.Logger
	rest []byte // of a line that the library has not read yet

	mu   sync.Mutex
	last int                     // guarded by mu
	kept map[int]json.RawMessage // guarded by mu: params of long lines, by the number in the short line
	err  error                   // guarded by mu: why there is no further line
}

// keptParams are the params of a short line.
type keptParams struct {
	Kept int `json:"demoagentKept"`
}

func newLongLines(in io.Reader, log *slog.Logger) *longLines {
	return &longLines{in: bufio.NewReaderSize(in, 64<<10), log: log, kept: map[int]json.RawMessage{}}
}

// Read implements io.Reader.
func (l *longLines) Read(b []byte) (int, error) {
	for len(l.rest) == 0 {
		line, size, err := l.line()
		switch {
		case size > longestLine:
			l.log.Error("a line was dropped, because it is too long", "bytes", size, "limit", longestLine)
		case len(line) > libraryLine:
			l.rest = l.short(line)
		default:
			l.rest = line
		}
		if err != nil && len(l.rest) == 0 {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.err = err
			return 0, err
		}
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// line reads a line, of which it keeps at most longestLine bytes.
func (l *longLines) line() (line []byte, size int, err error) {
	for {
		piece, err := l.in.ReadSlice('\n')
		size += len(piece)
		if size <= longestLine {
			line = append(line, piece...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, size, err
		}
	}
}

// short returns what the library is given in the place of a long line. An answer is replaced by an error.
func (l *longLines) short(line []byte) []byte {
	var m struct {
		ID     json.RawMessage   `json:"id,omitempty"`
		Method string            `json:"method,omitempty"`
		Params json.RawMessage   `json:"params,omitempty"`
		Error  *acp.RequestError `json:"error,omitempty"`
	}
	err := json.Unmarshal(line, &m)
	if err != nil || m.Method == "" && m.ID == nil {
		l.log.Error("a long line was dropped, because it is no message", "bytes", len(line), "error", err)
		return nil
	}
	if m.Method == "" {
		m.Params, m.Error = nil, acp.NewInternalError(map[string]any{"error": fmt.Sprintf("the answer has %d bytes; this agent takes %d", len(line), libraryLine)})
	} else {
		l.mu.Lock()
		l.last++
		l.kept[l.last] = m.Params
		m.Params = fmt.Appendf(nil, `{"demoagentKept":%d}`, l.last)
		l.mu.Unlock()
	}
	out, err := json.Marshal(m)
	if err != nil { // its parts were read
		return nil
	}
	return append(bytes.Replace(out, []byte("{"), []byte(`{"jsonrpc":"2.0",`), 1), '\n')
}

// handle is a handler that gets the unchanged params of long lines.
func (l *longLines) handle(next acp.MethodHandler) acp.MethodHandler {
	return func(ctx context.Context, method string, params json.RawMessage) (any, *acp.RequestError) {
		var k keptParams
		if bytes.HasPrefix(params, []byte(`{"demoagentKept":`)) && json.Unmarshal(params, &k) == nil {
			l.mu.Lock()
			if long, ok := l.kept[k.Kept]; ok {
				params = long
				delete(l.kept, k.Kept)
			}
			l.mu.Unlock()
		}
		return next(ctx, method, params)
	}
}

// ended is why the input ended; nil: it has not.
func (l *longLines) ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
