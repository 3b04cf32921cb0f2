// Package httppanics recovers from panics of HTTP handlers: the request is answered with 500 and a message, or its
// connection is closed, and the stack is logged at ERROR.
package httppanics

import (
	"bufio"
	"errors"
	"log/slog"
	"net"
	"net/http"

	"github.com/acphost/acphost/internal/panics"
)

// Handler returns a handler that answers 500 if h panics. If h has begun its answer already, the connection is closed
// instead, so that the client does not read the part as a complete answer. http.ErrAbortHandler is not recovered. A nil
// logger is slog's default logger. Safe for concurrent use.
func Handler(log *slog.Logger, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &response{ResponseWriter: w}
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			panics.Report(log, "answering "+r.Method+" "+r.URL.Path, p, func(err error) {
				if !answer.begun {
					http.Error(w, err.Error(), http.StatusInternalServerError)
				}
			})
			if answer.begun {
				panic(http.ErrAbortHandler)
			}
		}()
		h.ServeHTTP(answer, r)
	})
}

// response records whether its handler has begun to answer.
type response struct {
	http.ResponseWriter
	begun bool
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (r *response) WriteHeader(status int) {
	r.begun = r.begun || status >= http.StatusOK || status == http.StatusSwitchingProtocols
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *response) Write(b []byte) (int, error) {
	r.begun = true
	return r.ResponseWriter.Write(b)
}

// Flush implements http.Flusher.
func (r *response) Flush() {
	r.begun = true
	_ = http.NewResponseController(r.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker.
func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, both, err := http.NewResponseController(r.ResponseWriter).Hijack()
	r.begun = r.begun || err == nil
	return conn, both, err
}
