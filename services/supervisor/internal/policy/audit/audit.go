// Package audit writes and reads the record of decisions: a file with one line of JSON for each decision. Several
// supervisors share the file. A file that is too large is rotated. Secrets are removed from records.
//
// The package knows the format of records and of the file. It makes no decisions, and does not validate records.
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

	"github.com/acphost/acphost/internal/ownfile"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

const (
	// DefaultMaxBytes is the default size at which the file is rotated.
	DefaultMaxBytes = 16 << 20
	// DefaultKeep is the default number of rotated files that are kept.
	DefaultKeep = 8
	// MaxLine limits the bytes of a line, with its line feed. A longer record is shortened and says so.
	MaxLine = 64 << 10
)

// ErrClosed means that the Log was closed.
var ErrClosed = errors.New("the audit is closed")

// Options configure a Log.
type Options struct {
	// File is an absolute path. Required. Rotation renames it to File.1, which becomes File.2, and so on.
	File string
	// MaxBytes is the size at which the file is rotated, at least MaxLine. 0 means DefaultMaxBytes.
	MaxBytes int64
	// Keep is the number of rotated files that are kept. 0 means DefaultKeep.
	Keep int
	// Stderr, if set, also receives every record. Write does not wait for it: records that it does not accept in time
	// are dropped and counted.
	Stderr io.Writer
	// Syslog also sends every record to the system's log, without waiting for it.
	Syslog bool
	// Logger receives warnings about dropped records. Nil discards them.
	Logger *slog.Logger
	// Failing, if set, is called with each error of Write before Write returns. It must not block.
	Failing func(error)
	// Now returns the time. Nil means time.Now.
	Now func() time.Time
}

// Log writes records. It is safe for concurrent use, and several processes may use its file at once.
type Log struct {
	opts  Options
	sinks []*sink

	mu     sync.Mutex
	file   *os.File // nil after Close
	end    int64    // end of the last complete line that was seen
	closed bool
}

// Open creates the file if it is missing. If a crash has left an incomplete last line, Open repairs it and records
// that. It returns an error if another user could have written the file: the file or its folder is writable by others,
// or belongs to another user.
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
	if err := l.locked(time.Now().Add(ownfile.LockTimeout), l.trimTorn); err != nil {
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

// Write appends a record. When Write returns, the operating system has the record: it survives a crash of this process,
// but not of the machine. Write does not modify or retain r. It writes a copy with the time and the supervisor filled
// in if they are missing, and without secrets in the action. After an error, the file contains nothing of the record;
// the error says what to do. Write waits at most ownfile.LockTimeout for the lock, and for the disk.
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
		for _, s := range l.sinks { // sinks do not block
			s.offer(line)
		}
		return nil
	}); err != nil {
		what := "; see that its disk has room"
		if errors.Is(err, ownfile.ErrLocked) {
			what = "" // was logged
		}
		err = fmt.Errorf("audit: record a decision in %s: %w%s, or set permission.audit.file to another place", l.opts.File, err, what)
		if l.opts.Failing != nil {
			l.opts.Failing(err)
		}
		return err
	}
	return nil
}

// Close closes the file. It waits at most a second until standard error and the system's log have accepted the queued
// records.
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

// locked calls do with the file open and locked, and with l.mu held. If another supervisor has rotated the file, locked
// opens the new file.
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

// errAgain means that the file was rotated, and that the new file must be opened.
var errAgain = errors.New("another file has taken its place")

// append writes a line. The lock is held.
func (l *Log) append(line []byte) error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != l.end { // another supervisor has written to the file, and may have crashed meanwhile
		if err := l.trimTorn(); err != nil {
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

// trimTorn removes an incomplete last line, or adds a missing line feed, and records that. The lock is held.
func (l *Log) trimTorn() error {
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

// rotate renames the files. The lock is held, which excludes other processes. Those that wait for the lock notice that
// the file has another name.
func (l *Log) rotate() error {
	if err := os.Remove(rotatedName(l.opts.File, l.opts.Keep)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("put the file aside: %w", err)
	}
	for n := l.opts.Keep - 1; n >= 1; n-- {
		if err := os.Rename(rotatedName(l.opts.File, n), rotatedName(l.opts.File, n+1)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("put the file aside: %w", err)
		}
	}
	if err := os.Rename(l.opts.File, rotatedName(l.opts.File, 1)); err != nil {
		return fmt.Errorf("put the file aside: %w", err)
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// rotatedName returns the name of the nth rotated file, from 1.
func rotatedName(file string, n int) string { return file + "." + strconv.Itoa(n) }
