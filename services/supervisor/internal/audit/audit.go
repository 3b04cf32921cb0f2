// Package audit keeps the record of decisions: a file with one line of JSON for each decision. Several supervisors share the
// file. When it has grown too large, it is rotated. Secrets are kept out of it.
//
// The package knows records, and how they are written and read. It decides nothing, and does not check what it is given.
package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/ownfile"
)

const (
	// DefaultMaxBytes is the size at which the file is put aside.
	DefaultMaxBytes = 16 << 20
	// DefaultKeep is how many files that were put aside are kept.
	DefaultKeep = 8
	// MaxLine is the longest line in bytes, with its end. A record that needs more is shortened and says so.
	MaxLine = 64 << 10
)

// ErrClosed says that the Log was closed.
var ErrClosed = errors.New("the audit is closed")

// Options say where records go.
type Options struct {
	// File is an absolute path. Required. It is put aside as File.1, which becomes File.2, and so on.
	File string
	// MaxBytes is the size at which the file is put aside, no less than MaxLine. 0: DefaultMaxBytes.
	MaxBytes int64
	// Keep is how many files that were put aside are kept. 0: DefaultKeep.
	Keep int
	// Stderr, if set, gets every record too. It is never waited for: what it does not take in time is dropped and
	// counted.
	Stderr io.Writer
	// Syslog sends every record to the system's log too. It is never waited for either.
	Syslog bool
	// Logger is told of what is dropped. Nil: nobody is.
	Logger *slog.Logger
	// Failing is called with each error of Write, before that returns: it must not wait. Nil: nobody is.
	Failing func(error)
	// Now is the clock. Nil: the system's.
	Now func() time.Time
}

// Log writes records. Safe for concurrent use, and for use of its file by several processes at once.
type Log struct {
	opts  Options
	sinks []*sink

	mu     sync.Mutex
	file   *os.File // nil once closed
	end    int64    // where the last line that was seen whole ends
	closed bool
}

// Open makes the file if it is missing and mends it if a crash has torn its last line; a record says so. It is an error
// if the file could be somebody else's doing: it or its folder can be written by others, or belongs to another user.
func Open(o Options) (*Log, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	o.MaxBytes = max(o.MaxBytes, MaxLine)
	if o.Keep <= 0 {
		o.Keep = DefaultKeep
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Log{opts: o}
	if err := l.locked(time.Now().Add(ownfile.LockTimeout), l.mend); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("audit: %w", err)
	}
	if o.Stderr != nil {
		l.sinks = append(l.sinks, newSink("standard error", o.Logger, plainSink{w: o.Stderr}, MaxLine))
	}
	if o.Syslog {
		l.sinks = append(l.sinks, newSink("the system's log", o.Logger, &syslogSink{addresses: syslogAddresses}, syslogLimit))
	}
	return l, nil
}

// Write adds a record. The system has it when Write returns: it survives this process, though not the machine's crash. r
// is not changed and not kept; its time and supervisor are filled in where they are missing, and secrets in its action
// are redacted. An error says what to do; nothing of the record is in the file then. It takes ownfile.LockTimeout at
// most, or as long as the disk.
func (l *Log) Write(r *supervisorv1.AuditRecord) error {
	deadline := time.Now().Add(ownfile.LockTimeout)
	r = proto.CloneOf(r)
	if r.Time == nil {
		r.Time = timestamppb.New(l.opts.Now())
	}
	r.Supervisor = cmp.Or(r.Supervisor, uint32(os.Getpid()))
	redact(r)
	line, err := fit(r, MaxLine)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if err := l.locked(deadline, func() error {
		if err := l.append(line); err != nil {
			return err
		}
		for _, s := range l.sinks { // they do not wait
			s.offer(line)
		}
		return nil
	}); err != nil {
		what := "; see that its disk has room"
		if errors.Is(err, ownfile.ErrLocked) {
			what = "" // it is said
		}
		err = fmt.Errorf("audit: record a decision in %s: %w%s, or set permission.audit.file to another place", l.opts.File, err, what)
		if l.opts.Failing != nil {
			l.opts.Failing(err)
		}
		return err
	}
	return nil
}

// Close closes the file and waits for what standard error and the system's log have not taken yet, for a second at most.
func (l *Log) Close() error {
	l.mu.Lock()
	wasClosed := l.closed
	l.closed = true
	var err error
	if l.file != nil {
		err = l.file.Close()
		l.file = nil
	}
	l.mu.Unlock()
	if wasClosed {
		return nil
	}
	for _, s := range l.sinks {
		s.close()
	}
	return err
}

// locked calls do with the file open and locked, and with l.mu held. A file that another supervisor has put aside is left
// for the one that has its name now.
func (l *Log) locked(deadline time.Time, do func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if l.closed {
			return ErrClosed
		}
		if l.file == nil {
			f, err := ownfile.Append(l.opts.File)
			if err != nil {
				return err
			}
			l.file, l.end = f, -1
		}
		if err := ownfile.Lock(l.file, deadline); err != nil {
			return err
		}
		if ownfile.Current(l.file) {
			err := do()
			if l.file != nil {
				ownfile.Unlock(l.file)
			}
			if !errors.Is(err, errAgain) {
				return err
			}
			continue
		}
		_ = l.file.Close()
		l.file = nil
		if !time.Now().Before(deadline) {
			return fmt.Errorf("%s keeps being replaced", l.opts.File)
		}
	}
}

// errAgain says that the file was put aside and another one is to be opened.
var errAgain = errors.New("another file has taken its place")

// append writes a line. The lock is held.
func (l *Log) append(line []byte) error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != l.end { // another supervisor has written, and may have died of it
		if err := l.mend(); err != nil {
			return err
		}
	}
	if l.end > 0 && l.end+int64(len(line)) > l.opts.MaxBytes {
		if err := l.rotate(); err != nil {
			return err
		}
		return errAgain
	}
	if err := ownfile.AppendAll(l.file, line); err != nil {
		l.end = -1
		return err
	}
	l.end += int64(len(line))
	return nil
}

// mend cuts off a last line that a crash has torn, or ends it if nothing but its end is missing, and records that. The
// lock is held.
func (l *Log) mend() error {
	tail, at, err := ownfile.TornTail(l.file)
	if err != nil {
		return err
	}
	if len(tail) == 0 {
		l.end = at
		return nil
	}
	note := fmt.Sprintf("the last line was torn by a crash; %d bytes were cut off", len(tail))
	var end []byte
	if _, err := parse(tail); err == nil {
		note, end = "the last line had lost its end in a crash; nothing else of it is missing", []byte{'\n'}
	}
	line, err := fit(&supervisorv1.AuditRecord{
		Time: timestamppb.New(l.opts.Now()), Supervisor: uint32(os.Getpid()), Note: note,
	}, MaxLine)
	if err != nil {
		return err
	}
	if end == nil {
		if err := l.file.Truncate(at); err != nil {
			return fmt.Errorf("cut off the torn last line: %w", err)
		}
		l.end = at
	}
	if err := ownfile.AppendAll(l.file, append(end, line...)); err != nil {
		l.end = -1
		return fmt.Errorf("note that the last line was torn: %w", err)
	}
	l.opts.Logger.Warn("the audit's last line was torn", "file", l.opts.File, "note", note)
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	l.end = info.Size()
	return nil
}

// rotate puts the file aside. The lock is held, so nobody else does; those who wait for it find that it has another name.
func (l *Log) rotate() error {
	if err := os.Remove(aside(l.opts.File, l.opts.Keep)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("put the file aside: %w", err)
	}
	for n := l.opts.Keep - 1; n >= 1; n-- {
		if err := os.Rename(aside(l.opts.File, n), aside(l.opts.File, n+1)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("put the file aside: %w", err)
		}
	}
	if err := os.Rename(l.opts.File, aside(l.opts.File, 1)); err != nil {
		return fmt.Errorf("put the file aside: %w", err)
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// aside is the name of the nth file that was put aside, from 1.
func aside(file string, n int) string { return file + "." + strconv.Itoa(n) }
