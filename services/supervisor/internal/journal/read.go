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

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/ownfile"
)

// maxLine is more than any line of a journal has: the longest message that can be configured, twice.
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

// Entry is a line of a journal: a header, a frame, a loss or a note.
type Entry struct {
	Time    time.Time      `json:"t"`
	N       uint64         `json:"n"` // the number of the frame, or of the last one that is missing; 0: not known
	Journal *Header        `json:"journal"`
	Dir     string         `json:"dir"`
	Handler string         `json:"handler"`
	Method  string         `json:"method"`
	Answers string         `json:"answers"` // the method of the request that is answered
	Frame   jsontext.Value `json:"frame"`
	Base64  string         `json:"base64"`

	// In place of a frame, where content is off.
	ID      jsontext.Value `json:"id"`
	Session string         `json:"session"`
	Size    uint64         `json:"size"`
	Update  string         `json:"update"`
	Tool    string         `json:"tool"`
	Kind    string         `json:"kind"`
	Status  string         `json:"status"`

	// A loss.
	First   uint64    `json:"n_first"` // the number of the first one that is missing
	Dropped uint64    `json:"dropped"`
	Bytes   uint64    `json:"bytes"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Why     string    `json:"why"`

	Note string `json:"note"`

	// Raw is the line itself, without its end. It lives until the next entry is asked for.
	Raw []byte `json:"-"`
}

// Message is the frame as it passed: the very bytes. Nil: the entry has none.
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

// Observed is the frame of an agent's as it was observed, with the entry's number, in the file of a session. Its Line is
// Message's.
func (e *Entry) Observed(agent *frame.Agent, session string) frame.Frame {
	return frame.Frame{
		Agent: agent, Seq: e.N, Time: e.Time, Direction: frame.ParseDirection(e.Dir), Handler: e.Handler, Line: e.Message(),
		SessionID: []byte(session),
	}
}

// LineError is a line that cannot be read.
type LineError struct {
	File   string
	Offset int64
	Err    error
}

// Error says where and why.
func (e *LineError) Error() string {
	return fmt.Sprintf("%s, at byte %d: %v", e.File, e.Offset, e.Err)
}

// Unwrap is the cause.
func (e *LineError) Unwrap() error { return e.Err }

// Read returns the entries of a file. A line that cannot be read is a *LineError, and reading goes on after it; a last
// line without its end is not there yet.
func Read(path string) iter.Seq2[*Entry, error] { return walk(path, func() bool { return false }) }

// followEvery is how often a file that is followed is looked at.
const followEvery = 100 * time.Millisecond

// Follow is Read that goes on with what is added, until ctx ends.
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

// walk returns the entries of a file, and those that were added, as long as more reports whether to look again.
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

// minBuffer and maxBuffer bound the buffer of a Reader.
const (
	minBuffer = 4 << 10
	maxBuffer = 256 << 10
)

// Reader reads a file that may be growing. Not safe for concurrent use.
type Reader struct {
	f    *os.File
	at   int64 // where the next line begins
	buf  *bufio.Reader
	read bool // a line was, since the file was looked at
	long []byte
}

// OpenReader opens a file, to be read from the offset of a line: 0, or what Offset returned. It refuses what ownfile.Read
// refuses.
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
	r.look()
	return r, nil
}

// Offset returns where the next line begins.
func (r *Reader) Offset() int64 { return r.at }

// Close closes the file.
func (r *Reader) Close() error { return r.f.Close() }

// Next returns the next entry, which lives until Next is called again. The error is io.EOF where there was none when it was
// called: what is written later is found by a later call. It is a *LineError for a line that cannot be read: the next call
// goes on after it. After any other error the file cannot be read.
func (r *Reader) Next() (*Entry, error) {
	line, err := r.line()
	if errors.Is(err, io.EOF) && r.read {
		r.look() // it was looked at before, and may have more by now
		line, err = r.line()
	}
	if err != nil {
		r.look() // part of a line may have been taken
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

// look has the file read anew from where the next line begins.
func (r *Reader) look() {
	r.buf.Reset(io.NewSectionReader(r.f, r.at, 1<<62-r.at))
	r.read = false
}

// line returns the next whole line.
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

// all yields what is there. more: it may be asked again for what comes later.
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

// parse reads a line.
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

// Files returns the paths of the journals below a folder, in the order of their names, which is that of their days. link:
// also those with what belongs to no session.
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

// Session is what is known of a session's file without reading it: journal/index lists them.
type Session struct {
	File    string    `json:"file"`
	Session string    `json:"session"`
	Agent   string    `json:"agent"`
	Cwd     string    `json:"cwd"`
	Title   string    `json:"title,omitzero"`
	Started time.Time `json:"started,omitzero"` // zero: nothing is recorded in it
	Ended   time.Time `json:"ended,omitzero"`   // the last line
	Turns   int       `json:"turns"`
	Frames  int       `json:"frames"`
	Lost    int       `json:"lost,omitzero"` // frames that are missing
	Bytes   int64     `json:"bytes"`
	Live    bool      `json:"live"` // it is being written
}

// Part is a file of a session: what one supervisor saw of it.
type Part struct {
	Path    string
	Started time.Time
	Header  Header
	// New: the session began in this file, by session/new or session/fork. Else it was loaded or resumed, and goes on from an earlier file.
	New bool
}

// openingEntries is how many entries of a file may come before the answer to session/new: updates that agents send early.
const openingEntries = 16

// beginsSession reports whether a file whose header was read begins with session/new.
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

// Parts returns the files of a session below a folder, the one that was begun first first. Files that cannot be read are
// left out.
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
