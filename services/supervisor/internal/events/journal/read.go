package journal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acphost/acphost/internal/ownfile"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

// maxLine is the limit of a line: twice the largest configurable message.
const maxLine = 2 << 30

// Header is a file's first line.
type Header struct {
	Version  int    `json:"version"`
	Session  string `json:"session"`
	Agent    string `json:"agent"`
	AgentID  string `json:"agent_id"`
	Cwd      string `json:"cwd"`
	Acphost  string `json:"acphost"`
	Instance string `json:"instance"`
	PID      int    `json:"pid"`
	Content  bool   `json:"content"`
	// LateUpdates: see Options.
	LateUpdates bool `json:"late_updates"`
}

// Entry is a line of a journal: a header, a frame, a gap or a note.
type Entry struct {
	Time    time.Time      `json:"t"`
	N       uint64         `json:"n"` // the number of the frame, or of the last missing frame; 0: unknown
	Journal *Header        `json:"journal"`
	Dir     string         `json:"dir"`
	Handler string         `json:"handler"`
	Method  string         `json:"method"`
	Answers string         `json:"answers"` // the method of the answered request
	Frame   jsontext.Value `json:"frame"`
	Base64  string         `json:"base64"`

	// Instead of a frame, if content is not recorded.
	ID      jsontext.Value `json:"id"`
	Session string         `json:"session"`
	Size    uint64         `json:"size"`
	Update  string         `json:"update"`
	Tool    string         `json:"tool"`
	Kind    string         `json:"kind"`
	Status  string         `json:"status"`

	// A gap.
	First   uint64    `json:"n_first"` // the number of the first one that is missing
	Dropped uint64    `json:"dropped"`
	Bytes   uint64    `json:"bytes"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Why     string    `json:"why"`

	Note string `json:"note"`

	// Raw is the line itself, without its end. It is valid until the next entry is read.
	Raw []byte `json:"-"`
}

// Message returns the frame with its original bytes. Nil: the entry has none.
func (e *Entry) Message() []byte {
	switch {
	case e.Base64 != "":
		b, err := base64.StdEncoding.DecodeString(e.Base64)
		if err != nil {
			return nil
		}
		return b
	case len(e.Frame) > 0 && e.Frame[0] == '"':
		var s string
		if json.Unmarshal(e.Frame, &s, jsontext.AllowInvalidUTF8(true)) != nil {
			return nil
		}
		return []byte(s)
	}
	return e.Frame
}

// Observed returns the frame of an agent as it was observed, with the entry's number, for a session's file. Its Line is
// that of Message.
func (e *Entry) Observed(agent *frame.Agent, session string) frame.Frame {
	return frame.Frame{
		Agent: agent, Seq: e.N, Time: e.Time, Direction: frame.ParseDirection(e.Dir), Handler: e.Handler, Line: e.Message(),
		SessionID: []byte(session),
	}
}

// LineError is the error for an invalid line.
type LineError struct {
	File   string
	Offset int64
	Err    error
}

// Error returns the position and the reason.
func (e *LineError) Error() string {
	return fmt.Sprintf("%s, at byte %d: %v", e.File, e.Offset, e.Err)
}

// Unwrap returns the reason.
func (e *LineError) Unwrap() error { return e.Err }

// Read returns the entries of a file. An invalid line is a *LineError, and reading continues after it; an incomplete
// last line is ignored.
func Read(path string) iter.Seq2[*Entry, error] { return walk(path, func() bool { return false }) }

// followEvery is the interval for polling a followed file.
const followEvery = 100 * time.Millisecond

// Follow is Read that continues with added entries until ctx ends.
func Follow(ctx context.Context, path string) iter.Seq2[*Entry, error] {
	return walk(path, func() bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(followEvery):
			return true
		}
	})
}

// walk returns the entries of a file, and added ones as long as more returns true.
func walk(path string, more func() bool) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		r, err := OpenReader(path, 0)
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.Close()
		for r.all(yield) && more() {
		}
	}
}

// minBuffer and maxBuffer limit the buffer of a Reader.
const (
	minBuffer = 4 << 10
	maxBuffer = 256 << 10
)

// Reader reads a file that may be growing. Not safe for concurrent use.
type Reader struct {
	f    *os.File
	at   int64 // the offset of the next line
	buf  *bufio.Reader
	read bool // a line was read since the last refresh
	long []byte
}

// OpenReader opens a file for reading from the offset of a line: 0, or a result of Offset. It rejects the same files as
// ownfile.Read.
func OpenReader(path string, offset int64) (*Reader, error) {
	f, err := ownfile.Read(path)
	if err != nil {
		return nil, err
	}
	size := int64(maxBuffer)
	if info, err := f.Stat(); err == nil { // most files are much smaller
		size = min(maxBuffer, max(minBuffer, info.Size()-offset))
	}
	r := &Reader{f: f, at: offset, buf: bufio.NewReaderSize(nil, int(size))}
	r.refresh()
	return r, nil
}

// Offset returns the offset of the next line.
func (r *Reader) Offset() int64 { return r.at }

// Close closes the file.
func (r *Reader) Close() error { return r.f.Close() }

// Next returns the next entry, which is valid until Next is called again. The error is io.EOF if none exists; a later
// call returns entries that were written since. It is a *LineError for an invalid line: the next call continues after
// it. After any other error the file cannot be read.
func (r *Reader) Next() (*Entry, error) {
	line, err := r.line()
	if errors.Is(err, io.EOF) && r.read {
		r.refresh() // more may have been written since the last refresh
		line, err = r.line()
	}
	if err != nil {
		r.refresh() // part of a line may have been consumed
		return nil, err
	}
	r.read = true
	here := r.at
	r.at += int64(len(line))
	e, err := parse(line)
	if err != nil {
		return nil, &LineError{r.f.Name(), here, err}
	}
	return e, nil
}

// refresh discards the buffer, and reads the file again from the offset of the next line.
func (r *Reader) refresh() {
	r.buf.Reset(io.NewSectionReader(r.f, r.at, 1<<62-r.at))
	r.read = false
}

// line returns the next complete line.
func (r *Reader) line() ([]byte, error) {
	line, err := r.buf.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		r.long = append(r.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(r.long) > maxLine {
				return nil, fmt.Errorf("read %s, at byte %d: the line has no end", r.f.Name(), r.at)
			}
			line, err = r.buf.ReadSlice('\n')
			r.long = append(r.long, line...)
		}
		line = r.long
	}
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.f.Name(), err)
	}
	return line, nil
}

// all yields all entries. more reports whether it may be called again for later entries.
func (r *Reader) all(yield func(*Entry, error) bool) (more bool) {
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return true
		}
		if _, bad := errors.AsType[*LineError](err); err != nil && !bad {
			yield(nil, err)
			return false
		}
		if !yield(e, err) {
			return false
		}
	}
}

// parse parses a line.
func parse(line []byte) (*Entry, error) {
	e := &Entry{Raw: bytes.TrimRight(line, "\n")}
	if readUpdate(e.Raw, e) {
		return e, nil
	}
	if err := json.Unmarshal(e.Raw, e, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, err
	}
	return e, nil
}

// Files returns the paths of the journals below a folder, sorted by name and so by day. link includes files for frames
// without a session.
func Files(dir string, link bool) ([]string, error) {
	days, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files []string
	for _, day := range days {
		if _, err := time.Parse(time.DateOnly, day.Name()); err != nil || !day.IsDir() {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(dir, day.Name()))
		if err != nil {
			continue // it was removed meanwhile
		}
		for _, e := range entries {
			if e.Type().IsRegular() && strings.HasSuffix(e.Name(), Suffix) && (link || !strings.HasPrefix(e.Name(), linkName)) {
				files = append(files, filepath.Join(dir, day.Name(), e.Name()))
			}
		}
	}
	slices.Sort(files)
	return files, nil
}

// Session describes a session's file; journal/index lists them.
type Session struct {
	File    string    `json:"file"`
	Session string    `json:"session"`
	Agent   string    `json:"agent"`
	Cwd     string    `json:"cwd"`
	Title   string    `json:"title,omitzero"`
	Started time.Time `json:"started,omitzero"` // zero: it has no frames
	Ended   time.Time `json:"ended,omitzero"`   // the last line
	Turns   int       `json:"turns"`
	Frames  int       `json:"frames"`
	Lost    int       `json:"lost,omitzero"` // number of missing frames
	Bytes   int64     `json:"bytes"`
	Live    bool      `json:"live"` // it is being written
}

// Part is a file of a session: the part that one supervisor recorded.
type Part struct {
	Path    string
	Started time.Time
	Header  Header
	// New reports whether the session began in this file, with session/new or session/fork. Otherwise it was loaded or
	// resumed, and continues an earlier file.
	New bool
}

// openingEntries is the limit of entries before the answer to session/new: early updates of agents.
const openingEntries = 16

// beginsSession reports whether a file begins with session/new. Its header has been read.
func beginsSession(r *Reader) bool {
	for range openingEntries {
		e, err := r.Next()
		if err != nil {
			return false
		}
		for _, method := range [...]string{e.Method, e.Answers} {
			switch string(acp.Method([]byte(method))) {
			case acp.MethodSessionNew, acp.MethodSessionFork:
				return true
			case acp.MethodSessionLoad, acp.MethodSessionResume:
				return false
			}
		}
	}
	return false
}

// Parts returns the files of a session below a folder, oldest first. It omits unreadable files.
func Parts(dir, session string) ([]Part, error) {
	files, err := Files(dir, false)
	if err != nil {
		return nil, err
	}
	hint := "s-" + hintOf(session) + "-"
	var parts []Part
	for _, path := range files {
		if !strings.HasPrefix(filepath.Base(path), hint) {
			continue
		}
		r, err := OpenReader(path, 0)
		if err != nil {
			continue
		}
		e, err := r.Next()
		if err == nil && e.Journal != nil && e.Journal.Session == session {
			parts = append(parts, Part{Path: path, Started: e.Time, Header: *e.Journal, New: beginsSession(r)})
		}
		_ = r.Close()
	}
	slices.SortStableFunc(parts, func(a, b Part) int { return a.Started.Compare(b.Started) })
	return parts, nil
}
