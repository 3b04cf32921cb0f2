package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

const (
	// sinkQueue limits the lines that wait for a sink.
	sinkQueue = 1024
	// sinkGrace limits the time that close waits for a sink.
	sinkGrace = time.Second
)

// sink passes lines to a destination that may be slow, without blocking its caller. Lines that do not fit into the
// queue are dropped. Their number is reported when there is room again.
type sink struct {
	name    string
	logger  *slog.Logger
	limit   int // longer records are shortened
	lines   chan []byte
	done    chan struct{}
	dropped atomic.Uint64
}

// newSink starts a sink that writes to a writer. Each call of Write gets one line without a line feed: a record, or a
// report of dropped records.
func newSink(name string, logger *slog.Logger, to io.WriteCloser, limit int) *sink {
	s := &sink{name: name, logger: logger, limit: limit, lines: make(chan []byte, sinkQueue), done: make(chan struct{})}
	go s.run(to)
	return s
}

// offer queues a line without blocking. It must not be called after close.
func (s *sink) offer(line []byte) {
	select {
	case s.lines <- line:
	default:
		s.dropped.Add(1)
	}
}

func (s *sink) run(to io.WriteCloser) {
	defer close(s.done)
	defer to.Close()
	failing := false
	write := func(line []byte, err error) {
		if err == nil {
			err = panics.Catch(s.logger, "sending an audit record to "+s.name, func() error {
				_, err := to.Write(line)
				return err
			})
		}
		switch {
		case err != nil && !failing: // report the failure once, not for every record
			s.logger.Warn("records do not reach one of their places; the audit's file has them", "place", s.name, "error", err)
		case err == nil && failing:
			s.logger.Info("records are sent again", "place", s.name)
		}
		failing = err != nil
	}
	for line := range s.lines {
		if n := s.dropped.Swap(0); n > 0 {
			s.logger.Warn("records were dropped, since their place was too slow; the audit's file has them", "place", s.name, "dropped", n)
			write(fmt.Appendf(nil, "acphost: %d audit records were dropped here; the audit's file has them", n), nil)
		}
		write(s.short(line))
	}
}

// short returns a line without its line feed, shortened to the limit.
func (s *sink) short(line []byte) ([]byte, error) {
	var err error
	if len(line) > s.limit {
		r, wrong := parse(line)
		if wrong != nil {
			r = &supervisorv1.AuditRecord{}
		}
		line, err = fit(r, s.limit)
	}
	return bytes.TrimSpace(line), err
}

// close waits at most sinkGrace for the queue. A write that is blocked then, for example to a pipe without a reader,
// ends with the process.
func (s *sink) close() {
	close(s.lines)
	timer := time.NewTimer(sinkGrace)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
		s.logger.Warn("records were not taken in time; the audit's file has them", "place", s.name, "waiting", len(s.lines))
	}
}

// plainSink adds line feeds.
type plainSink struct{ w io.Writer }

func (p plainSink) Write(line []byte) (int, error) {
	return p.w.Write(append(slices.Clip(line), '\n'))
}

func (p plainSink) Close() error { return nil }

const (
	// syslogTimeout limits the time for one message to the system's log.
	syslogTimeout = time.Second
	// syslogLimit is the size in bytes of a message that every syslog daemon accepts.
	syslogLimit = 8 << 10
	// syslogNotice is facility "user" (1), severity "notice" (5).
	syslogNotice = 1<<3 | 5
)

// syslogAddresses are the sockets of syslog on Linux and macOS.
var syslogAddresses = []string{"/dev/log", "/var/run/syslog", "/var/run/log"}

// syslogSink sends lines to the system's log in the format of libc's syslog(3). Unlike log/syslog, it has deadlines.
type syslogSink struct {
	addresses []string
	conn      net.Conn
}

func (s *syslogSink) Write(line []byte) (int, error) {
	message := fmt.Appendf(nil, "<%d>%s acphost[%d]: %s", syslogNotice, time.Now().Format(time.Stamp), os.Getpid(), line)
	if s.conn != nil { // the daemon may have been restarted
		if s.send(message) == nil {
			return len(line), nil
		}
		_ = s.Close()
	}
	if err := s.dial(); err != nil {
		return 0, err
	}
	return len(line), s.send(message)
}

func (s *syslogSink) send(message []byte) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(syslogTimeout)); err != nil {
		return err
	}
	_, err := s.conn.Write(message)
	return err
}

func (s *syslogSink) dial() error {
	var errs error
	for _, address := range s.addresses {
		conn, err := net.DialTimeout("unixgram", address, syslogTimeout)
		if err == nil {
			s.conn = conn
			return nil
		}
		errs = errors.Join(errs, err)
	}
	return fmt.Errorf("no log of the system listens here: %w", errs)
}

func (s *syslogSink) Close() error {
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	return err
}
