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

	"github.com/acphost/acphost/services/supervisor/internal/ownfile"
)

// maxLine is more than any line of a journal has: the longest message that can be configured, twice.
const maxLine = 2 << 30

// Header is a file's first line.
type Header struct {
	Version  int    `json:"version"`
	Session  string `json:"session"`
	Agent    string `json:"agent"`
	Cwd      string `json:"cwd"`
	Acphost  string `json:"acphost"`
	Instance string `json:"instance"`
	PID      int    `json:"pid"`
	Content  bool   `json:"content"`
}

// Entry is a line of a journal: a header, a frame, a loss or a note.
type Entry struct {
	Time    time.Time      `json:"t"`
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
func Read(path string) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		f, err := ownfile.Read(path)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		if _, err := readFrom(f, path, 0, yield); err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// followEvery is how often a file that is followed is looked at.
const followEvery = 100 * time.Millisecond

// Follow is Read that goes on with what is added, until ctx ends.
func Follow(ctx context.Context, path string) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		f, err := ownfile.Read(path)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		ticker := time.NewTicker(followEvery)
		defer ticker.Stop()
		var at int64
		for {
			if at, err = readFrom(f, path, at, yield); err != nil {
				if !errors.Is(err, errStopped) {
					yield(nil, err)
				}
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}
}

var errStopped = errors.New("nobody reads on")

// readFrom yields the whole lines of a file from an offset on, and returns where the next one begins.
func readFrom(f *os.File, path string, at int64, yield func(*Entry, error) bool) (int64, error) {
	r := bufio.NewReaderSize(io.NewSectionReader(f, at, 1<<62-at), 256<<10)
	var long []byte
	for {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if long = append(long, line...); len(long) > maxLine {
				return at, &LineError{path, at, errors.New("the line has no end")}
			}
			continue
		}
		if errors.Is(err, io.EOF) {
			return at, nil
		}
		if err != nil {
			return at, fmt.Errorf("read %s: %w", path, err)
		}
		if long != nil {
			line = append(long, line...)
			long = nil
		}
		e, err := parse(line)
		here := at
		at += int64(len(line))
		if err != nil {
			if !yield(nil, &LineError{path, here, err}) {
				return at, errStopped
			}
			continue
		}
		if !yield(e, nil) {
			return at, errStopped
		}
	}
}

// parse reads a line.
func parse(line []byte) (*Entry, error) {
	e := &Entry{Raw: bytes.TrimRight(line, "\n")}
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
			if e.Type().IsRegular() && strings.HasSuffix(e.Name(), suffix) && (link || !strings.HasPrefix(e.Name(), linkName)) {
				files = append(files, filepath.Join(dir, day.Name(), e.Name()))
			}
		}
	}
	slices.Sort(files)
	return files, nil
}
