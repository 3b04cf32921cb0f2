package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/ownfile"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

const (
	// Suffix ends the names of a journal's files.
	Suffix = ".ndjson"
	// linkName begins the names of files for frames without a session.
	linkName = "_link"

	// maxHint is the limit of the part of a session's id in its file's name, in bytes.
	maxHint = 40

	// retryAfter is the wait before another attempt to write a file after an error.
	retryAfter = time.Second

	whyOver = "the session's file is as large as it may be (journal.max_session_bytes)"
)

// file is the file of one session. Not safe for concurrent use.
type file struct {
	agent              *frame.Agent
	session, cwd, path string
	f                  *os.File
	size               int64
	used               uint64
	over               bool // it has reached its maximum size
	closed             bool // the session is closed

	buf   []byte // lines to be written; nil: none
	holds gap    // the gap that their loss would leave

	lost    gap // since the last written line
	retryAt time.Time
}

// lose drops the unwritten lines of a file.
func (w *writer) lose(f *file, holds gap, why string) {
	holds.why = why
	f.lost.merge(holds)
	w.lacks(f)
}

// lacks publishes the number of frames that a file lacks and does not count yet.
func (w *writer) lacks(f *file) {
	key := fileKey{idOf(f.agent), f.session}
	w.unsaidMu.Lock()
	defer w.unsaidMu.Unlock()
	if f.lost.frames == 0 {
		delete(w.unsaid, key)
	} else {
		w.unsaid[key] = f.lost
	}
}

// reset drops the unwritten lines of a file. Another file may reuse the buffer.
func (w *writer) reset(f *file) {
	if cap(f.buf) <= spareBytes && len(w.buffers) < spareBuffers {
		w.buffers = append(w.buffers, f.buf[:0])
	}
	f.buf, f.holds = nil, gap{}
}

// filePath returns the path of a session's file. The agent chooses the session's id, so the name contains only a
// cleaned part of it.
func filePath(o Options, agent *frame.Agent, session string) string {
	day := o.Now().UTC().Format(time.DateOnly)
	sum := sha256.Sum256([]byte(session + "\x00" + nameOf(o, agent) + "\x00" + o.Instance + "\x00" + idOf(agent)))
	name := linkName
	if session != "" {
		name = "s-" + hintOf(session)
	}
	return filepath.Join(o.Dir, day, name+"-"+hex.EncodeToString(sum[:6])+Suffix)
}

// hintOf returns the part of a session's id in its file's name.
func hintOf(session string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-':
			return c
		}
		return '_'
	}, session[:min(len(session), maxHint)])
}

func nameOf(o Options, agent *frame.Agent) string {
	if agent == nil || agent.Name == "" {
		return o.Agent
	}
	return agent.Name
}

// open opens a file, repairs its end, and writes its header if it has none. from is the time of its first frame.
func (w *writer) open(f *file, from int64) error {
	if f.f != nil && ownfile.Current(f.f) {
		return nil
	}
	f.close() // the file was removed
	w.closeOldest()
	opened, err := ownfile.Append(f.path)
	if err != nil {
		return err
	}
	f.f = opened
	if err := w.begin(f, from); err != nil {
		f.close()
		return err
	}
	return nil
}

// begin is open for a file that is not locked yet.
func (w *writer) begin(f *file, from int64) error {
	// The lock is kept as long as the file is open, and shows other processes that the file is still being written.
	if err := ownfile.Lock(f.f, time.Now().Add(ownfile.LockTimeout)); err != nil {
		return err
	}
	if _, err := mend(f.f, w.opts.Now()); err != nil {
		return err
	}
	info, err := f.f.Stat()
	if err != nil {
		return err
	}
	if f.size = info.Size(); f.size > 0 {
		return nil
	}
	return f.append(w.header(f, from))
}

// append writes lines to an open file.
func (f *file) append(lines []byte) error {
	if err := ownfile.AppendAll(f.f, lines); err != nil {
		return err
	}
	f.size += int64(len(lines))
	return nil
}

// close closes a file if it is open.
func (f *file) close() {
	if f.f != nil {
		_ = f.f.Close()
		f.f = nil
	}
}

func (w *writer) closeOldest() {
	var oldest *file
	n := 0
	for _, f := range w.files {
		if f.f == nil {
			continue
		}
		n++
		if oldest == nil || f.used < oldest.used {
			oldest = f
		}
	}
	if n >= maxOpenFiles {
		oldest.close()
	}
}

// header is a file's first line.
func (w *writer) header(f *file, from int64) []byte {
	b := w.lines.time([]byte(`{"t":`), from)
	b = append(b, `,"journal":{"version":1`...)
	member := func(name, value string) {
		b = append(append(append(b, `,"`...), name...), `":`...)
		b = jsonrpc.AppendString(b, value)
	}
	member("session", f.session)
	member("agent", nameOf(w.opts, f.agent))
	if id := idOf(f.agent); id != "" {
		member("agent_id", id)
	}
	member("cwd", f.cwd)
	member("acphost", w.opts.Version)
	member("instance", w.opts.Instance)
	b = fmt.Appendf(b, `,"pid":%d,"content":%v`, os.Getpid(), w.opts.Content)
	if w.opts.LateUpdates {
		b = append(b, `,"late_updates":true`...)
	}
	b = append(b, "}}\n"...)
	return b
}

// flushFile writes the buffered lines of a file, or counts them as lost.
func (w *writer) flushFile(f *file) {
	if len(f.buf) > 0 {
		w.write(f, f.buf, f.holds)
		w.reset(f)
	}
}

// write writes lines to a file, or counts them as lost.
func (w *writer) write(f *file, lines []byte, holds gap) {
	if f.closed {
		defer f.close()
	}
	now := time.Now()
	if now.Before(f.retryAt) {
		w.lose(f, holds, f.lost.why)
		return
	}
	w.tick++
	f.used = w.tick
	if err := w.writeOpen(f, lines, holds); err != nil {
		f.retryAt = now.Add(retryAfter)
		w.lose(f, holds, "it could not be written: "+plainError(err))
		if !w.full {
			w.full = true
			w.opts.Logger.Warn("the journal cannot be written; sessions go on without, and what is missing is counted", "file", f.path, "error", err)
			if w.opts.Failing != nil {
				w.opts.Failing(f.path, err)
			}
		}
		return
	}
	if w.full {
		w.full = false
		w.opts.Logger.Info("the journal is written again", "file", f.path)
	}
}

func (w *writer) writeOpen(f *file, lines []byte, holds gap) error {
	if err := w.open(f, holds.from); err != nil {
		return err
	}
	if f.lost.frames > 0 {
		if err := w.writeLost(f); err != nil {
			return err
		}
	}
	if f.size+int64(len(lines)) > w.opts.MaxSessionBytes {
		f.over = true
		w.lose(f, holds, whyOver)
		w.opts.Logger.Warn("a session's journal is as large as it may be; what follows is counted only", "file", f.path, "limit", w.opts.MaxSessionBytes)
		return nil
	}
	return f.append(lines)
}

func (w *writer) writeLost(f *file) error {
	if err := f.append(w.lines.lost(nil, &f.lost, w.opts.Now().UnixNano())); err != nil {
		return err
	}
	f.lost = gap{}
	w.lacks(f)
	return nil
}

// finish closes a file after a last attempt to write the count of lost frames.
func (w *writer) finish(f *file) {
	if f.lost.frames > 0 {
		err := w.open(f, f.lost.from)
		if err == nil {
			err = w.writeLost(f)
		}
		if err != nil {
			w.failed = fmt.Errorf("journal: %s lacks %d frames, and could not record that: %w", f.path, f.lost.frames, err)
			w.opts.Logger.Warn("a journal lacks what could not be written", "file", f.path, "frames", f.lost.frames, "bytes", f.lost.bytes, "error", err)
		}
	}
	f.close()
}

// plainError returns an error's text without the path, which is not needed in the file itself.
func plainError(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, ": "); i >= 0 {
		text = text[i+2:]
	}
	return text
}

// mend removes an incomplete last line that a crash has left, and records that in the file. The lock is held.
func mend(f *os.File, now time.Time) (torn int64, err error) {
	end, size, err := ownfile.LastEnd(f)
	if err != nil || end == size {
		return 0, err
	}
	if err := f.Truncate(end); err != nil {
		return 0, fmt.Errorf("cut off the torn last line: %w", err)
	}
	var m lineMaker
	torn = size - end
	return torn, ownfile.AppendAll(f, m.note(nil, now.UnixNano(), fmt.Sprintf("the last line was torn by a crash; %d bytes were cut off", torn)))
}
