package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/ownfile"
)

const (
	// maxRead is the longest line in bytes that is read; Write makes none over MaxLine.
	maxRead = 1 << 20
	// maxKeep is how many files are looked for at most.
	maxKeep = 1000
	// pollEvery is how often Follow looks for more.
	pollEvery = 100 * time.Millisecond
)

// Filter says which records are wanted: those for which all that is set holds. Notes about the audit itself have no
// decision, so nothing but Since, Until and Text can hold for them.
type Filter struct {
	// Since and Until bound the time: not before Since, and before Until.
	Since, Until time.Time
	// Session, Agent, Verdict, Outcome, Rule and Door are the fields of those names, whole.
	Session, Agent, Verdict, Outcome, Rule, Door string
	// Kind is the kind of action, or a glob: "fs.*".
	Kind string
	// Text is found, whatever its case, in the command, a path, the title, the rule, the reason or the note.
	Text string
	// Limit keeps the newest so many of them. 0: all.
	Limit int
}

// LineError says that a line cannot be read. Those behind it are read all the same.
type LineError struct {
	File string
	Line int // from 1; 0 in a file that is followed
	Err  error
}

func (e *LineError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: a line is no record: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s:%d: the line is no record: %v", e.File, e.Line, e.Err)
}

// Unwrap returns why.
func (e *LineError) Unwrap() error { return e.Err }

// Read returns the records in an audit's file and in those that were put aside, oldest first. A *LineError stands in for
// a line that cannot be read; any other error is the last. A file that is missing is fs.ErrNotExist, unless there are
// some that were put aside. Supervisors may write, and put files aside, meanwhile: no record is missed or seen twice.
func Read(file string, f Filter) iter.Seq2[*supervisorv1.AuditRecord, error] {
	return func(yield func(*supervisorv1.AuditRecord, error) bool) {
		parts, err := openAll(file, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		defer closeAll(parts)
		_, _ = deliver(parts, f, yield)
	}
}

// Follow returns the newest f.Limit records that are there (with 0: none), and then each as it is written, until ctx is
// done. The file may be missing at first. Errors are as Read's.
func Follow(ctx context.Context, file string, f Filter) iter.Seq2[*supervisorv1.AuditRecord, error] {
	return func(yield func(*supervisorv1.AuditRecord, error) bool) {
		parts, err := openAll(file, nil)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield(nil, err)
			return
		}
		var at *part // what is followed
		if len(parts) > 0 {
			at = parts[len(parts)-1]
			ok := true
			if f.Limit > 0 {
				ok, err = deliver(parts, f, yield)
			} else if err = at.toEnd(); err != nil {
				yield(nil, err)
			}
			closeAll(parts[:len(parts)-1])
			if !ok || err != nil {
				closeAll([]*part{at})
				return
			}
		}
		f.Limit = 0
		follow(ctx, file, f, at, yield)
	}
}

// follow delivers what is written behind at, or in a file that is still to come.
func follow(ctx context.Context, file string, f Filter, at *part, yield func(*supervisorv1.AuditRecord, error) bool) {
	defer func() { closeAll([]*part{at}) }()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		more := []*part{at}
		if at == nil || !at.current(file) {
			newer, err := openAll(file, at)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				yield(nil, err)
				return
			}
			more = append(more, newer...)
		}
		more = slices.DeleteFunc(more, func(p *part) bool { return p == nil })
		for i, p := range more {
			ok, err := p.records(f, yield)
			if err != nil && ok {
				yield(nil, err)
			}
			if !ok || err != nil {
				closeAll(more[i+1:])
				at = p
				return
			}
			if i > 0 {
				closeAll(more[i-1 : i])
			}
			at = p
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// part is one of an audit's files.
type part struct {
	name string
	file *os.File
	r    *bufio.Reader
	line int   // lines that were read
	at   int64 // where the next line begins
}

// openAll opens an audit's files, the oldest first; behind stops at a file that is open already, and leaves it out. They
// are opened from the newest on: one that is put aside meanwhile is met twice, which shows, and none is missed.
func openAll(file string, behind *part) (parts []*part, err error) {
	for n := 0; ; n++ {
		name := file
		if n > 0 {
			name = aside(file, n)
		}
		f, openErr := ownfile.Read(name)
		if errors.Is(openErr, fs.ErrNotExist) {
			if n == 0 || hasOlder(file, n) { // one that is being put aside has no name for a moment
				if err == nil && n == 0 {
					err = openErr
				}
				continue
			}
			break
		}
		if openErr != nil {
			closeAll(parts)
			return nil, openErr
		}
		if behind != nil && sameFile(f, behind.file) {
			_ = f.Close()
			break
		}
		if slices.ContainsFunc(parts, func(p *part) bool { return sameFile(p.file, f) }) {
			_ = f.Close()
			continue
		}
		parts = append(parts, &part{name: name, file: f, r: bufio.NewReaderSize(f, 64<<10)})
	}
	if len(parts) == 0 {
		return nil, err
	}
	slices.Reverse(parts)
	return parts, nil
}

// hasOlder reports whether there is a file that was put aside behind the nth.
func hasOlder(file string, n int) bool {
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil {
		return false
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), filepath.Base(file)+".")
		if i, err := strconv.Atoi(number); ok && err == nil && i > n && i <= maxKeep {
			return true
		}
	}
	return false
}

func closeAll(parts []*part) {
	for _, p := range parts {
		if p != nil {
			_ = p.file.Close()
		}
	}
}

func sameFile(a, b *os.File) bool {
	x, errX := a.Stat()
	y, errY := b.Stat()
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// deliver yields what f wants of several files.
func deliver(parts []*part, f Filter, yield func(*supervisorv1.AuditRecord, error) bool) (ok bool, err error) {
	if f.Limit <= 0 {
		for _, p := range parts {
			if ok, err := p.records(f, yield); !ok || err != nil {
				if err != nil && ok {
					yield(nil, err)
				}
				return false, err
			}
		}
		return true, nil
	}
	var newest []*supervisorv1.AuditRecord
	for _, p := range parts {
		ok, err := p.records(f, func(r *supervisorv1.AuditRecord, err error) bool {
			if err != nil {
				return yield(nil, err)
			}
			if newest = append(newest, r); len(newest) >= 2*f.Limit {
				newest = append(newest[:0:0], newest[len(newest)-f.Limit:]...)
			}
			return true
		})
		if !ok || err != nil {
			if err != nil && ok {
				yield(nil, err)
			}
			return false, err
		}
	}
	for _, r := range newest[max(0, len(newest)-f.Limit):] {
		if !yield(r, nil) {
			return false, nil
		}
	}
	return true, nil
}

// records yields what f wants of the lines that are whole; ok is false once yield wants no more. It can be called again
// when there may be more.
func (p *part) records(f Filter, yield func(*supervisorv1.AuditRecord, error) bool) (ok bool, err error) {
	for {
		line, err := p.next()
		var bad *LineError
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case errors.As(err, &bad):
			if !yield(nil, bad) {
				return false, nil
			}
			continue
		case err != nil:
			return true, fmt.Errorf("read %s: %w", p.name, err)
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		r, err := parse(line)
		if err != nil {
			if !yield(nil, &LineError{p.name, p.line, err}) {
				return false, nil
			}
			continue
		}
		if f.wants(r) && !yield(r, nil) {
			return false, nil
		}
	}
}

// next returns the next whole line, io.EOF if there is none yet, or a *LineError for one that is too long.
func (p *part) next() ([]byte, error) {
	var line []byte
	size := 0
	for {
		piece, err := p.r.ReadSlice('\n')
		size += len(piece)
		if size <= maxRead {
			line = append(line, piece...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil: // what there is of a line may be more by the next time, or be cut off
			if _, seekErr := p.file.Seek(p.at, io.SeekStart); seekErr != nil {
				return nil, seekErr
			}
			p.r.Reset(p.file)
			return nil, err
		}
		p.at += int64(size)
		if p.line >= 0 {
			p.line++
		}
		if size > maxRead {
			return nil, &LineError{p.name, max(p.line, 0), fmt.Errorf("it is longer than %d bytes", maxRead)}
		}
		return line, nil
	}
}

// toEnd skips all whole lines.
func (p *part) toEnd() error {
	_, at, err := ownfile.TornTail(p.file)
	if err != nil {
		return err
	}
	if _, err := p.file.Seek(at, io.SeekStart); err != nil {
		return err
	}
	p.r.Reset(p.file)
	p.at, p.line = at, -1
	return nil
}

// current reports whether the name stands for this file.
func (p *part) current(name string) bool {
	at, err := os.Lstat(name)
	if err != nil {
		return false
	}
	info, err := p.file.Stat()
	return err == nil && os.SameFile(at, info)
}

func (f Filter) wants(r *supervisorv1.AuditRecord) bool {
	at := r.GetTime().AsTime()
	if !f.Since.IsZero() && at.Before(f.Since) || !f.Until.IsZero() && !at.Before(f.Until) {
		return false
	}
	for _, want := range [][2]string{
		{f.Session, r.GetSessionId()}, {f.Agent, r.GetAgent()}, {f.Verdict, r.GetVerdict()},
		{f.Outcome, r.GetOutcome()}, {f.Rule, r.GetRule()}, {f.Door, r.GetDoor()},
	} {
		if want[0] != "" && want[0] != want[1] {
			return false
		}
	}
	if kind := r.GetAction().GetKind(); f.Kind != "" && f.Kind != kind {
		if ok, err := path.Match(f.Kind, kind); err != nil || !ok {
			return false
		}
	}
	return f.Text == "" || mentions(r, strings.ToLower(f.Text))
}

func mentions(r *supervisorv1.AuditRecord, text string) bool {
	a := r.GetAction()
	in := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	return in(a.GetCommand().GetText()) || in(a.GetTitle()) || in(r.GetRule()) || in(r.GetReason()) || in(r.GetNote()) ||
		slices.ContainsFunc(a.GetPaths(), func(p *permissionv1.PathAccess) bool {
			return in(p.GetPath()) || in(p.GetResolvedPath())
		})
}
