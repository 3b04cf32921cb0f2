package audit

import (
	"bufio"
	"bytes"
	"cmp"
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

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/ownfile"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

const (
	// maxRead limits the bytes of a line that is read. Write does not exceed MaxLine.
	maxRead = 1 << 20
	// maxKeep limits the number of files that are read.
	maxKeep = 1000
	// pollEvery is the interval at which Follow checks for new records.
	pollEvery = 100 * time.Millisecond
)

// Filter selects records that match all fields that are set. Notes about the audit itself have no decision, so only
// Since, Until and Text can match them.
type Filter struct {
	// Since and Until limit the time: not before Since, and before Until.
	Since, Until time.Time
	// Session, Agent, Verdict, Outcome, Rule and Door match the whole fields with these names.
	Session, Agent, Verdict, Outcome, Rule, Door string
	// Kind is a kind of action, or a glob: "fs.*".
	Kind string
	// Cwd is an absolute folder. It matches actions with a root in this folder.
	Cwd string
	// Text matches a part of the command, a path, the title, the rule, the reason or the note, in any case.
	Text string
	// Limit selects only the newest records. 0 means all.
	Limit int
}

// LineError means that a line cannot be parsed. The following lines are read nevertheless.
type LineError struct {
	File string
	Line int // from 1; 0 for Follow and Watch
	Err  error
}

func (e *LineError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: a line is no record: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s:%d: the line is no record: %v", e.File, e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }

// Read returns the records in an audit's file and in its rotated files, oldest first. It yields a *LineError for a line
// that cannot be parsed; any other error is the last. The error for a missing file is fs.ErrNotExist, unless there are
// rotated files. Supervisors may write and rotate files meanwhile: each record is returned exactly once.
func Read(file string, f Filter) iter.Seq2[*supervisorv1.AuditRecord, error] {
	return func(yield func(*supervisorv1.AuditRecord, error) bool) {
		parts, err := openAll(file, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		defer closeAll(parts)
		deliver(parts, f, yield)
	}
}

// Follow returns the newest f.Limit existing records (none for 0), and then each new record, until ctx ends. The file
// may be missing at first. Errors are the same as for Read.
func Follow(ctx context.Context, file string, f Filter) iter.Seq2[*supervisorv1.AuditRecord, error] {
	return follow(ctx, file, f, func() bool { return true })
}

// Watch is Follow in batches: the first call of send gets the newest f.Limit existing records, perhaps none, and each
// later call gets the new ones. A line that cannot be parsed becomes a record with a note. Watch returns when ctx ends,
// or with an error of send or of the file.
func Watch(ctx context.Context, file string, f Filter, send func([]*supervisorv1.AuditRecord) error) error {
	var batch []*supervisorv1.AuditRecord
	var sendErr error
	sent := false
	for r, err := range follow(ctx, file, f, func() bool {
		if len(batch) > 0 || !sent {
			sendErr, sent = send(batch), true
			batch = nil
		}
		return sendErr == nil
	}) {
		if _, bad := errors.AsType[*LineError](err); bad {
			r = &supervisorv1.AuditRecord{Time: timestamppb.Now(), Note: "a line of the record cannot be read"}
		} else if err != nil {
			return err
		}
		batch = append(batch, r)
	}
	return cmp.Or(sendErr, ctx.Err())
}

// follow is Follow. It calls told after it has yielded all existing records, and ends if told returns false.
func follow(ctx context.Context, file string, f Filter, told func() bool) iter.Seq2[*supervisorv1.AuditRecord, error] {
	return func(yield func(*supervisorv1.AuditRecord, error) bool) {
		parts, err := openAll(file, nil)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield(nil, err)
			return
		}
		defer func() { closeAll(parts) }()
		if f.Limit > 0 && !deliver(parts, f, yield) {
			return
		}
		if parts = closeAllButLast(parts); f.Limit == 0 && len(parts) > 0 {
			if err := parts[0].seekEnd(); err != nil {
				yield(nil, err)
				return
			}
		}
		f.Limit = 0
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for {
			if len(parts) == 0 || !parts[0].current(file) {
				newer, err := openAll(file, parts)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					yield(nil, err)
					return
				}
				parts = append(parts, newer...)
			}
			if !deliver(parts, f, yield) {
				return
			}
			parts = closeAllButLast(parts)
			if !told() {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}
}

// closeAllButLast closes all files except the last one, to which records are appended.
func closeAllButLast(parts []*part) []*part {
	last := max(0, len(parts)-1)
	closeAll(parts[:last])
	return parts[last:]
}

// part is one of the files of an audit.
type part struct {
	name string
	file *os.File
	r    *bufio.Reader
	line int   // number of lines read
	at   int64 // start of the next line
}

// openAll opens the files of an audit, oldest first, after those that are open. It opens the newest first: if files are
// rotated meanwhile, it opens one twice, which it detects, and misses none.
func openAll(file string, behind []*part) (parts []*part, err error) {
	for n := 0; ; n++ {
		name := file
		if n > 0 {
			name = rotatedName(file, n)
		}
		f, openErr := ownfile.Read(name)
		if errors.Is(openErr, fs.ErrNotExist) {
			if n == 0 || hasOlder(file, n) { // a file has no name for a moment during rotation
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
		isOpen := func(p *part) bool { return sameFile(p.file, f) }
		if slices.ContainsFunc(behind, isOpen) {
			_ = f.Close()
			break
		}
		if slices.ContainsFunc(parts, isOpen) {
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

// hasOlder reports whether there is a rotated file after the nth.
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
		_ = p.file.Close()
	}
}

func sameFile(a, b *os.File) bool {
	x, errX := a.Stat()
	y, errY := b.Stat()
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// deliver yields the matching records of several files. It returns false after an error, or if yield has returned
// false.
func deliver(parts []*part, f Filter, yield func(*supervisorv1.AuditRecord, error) bool) bool {
	if f.Limit <= 0 {
		return !slices.ContainsFunc(parts, func(p *part) bool { return !p.records(f, yield) })
	}
	var newest []span
	for _, p := range slices.Backward(parts) { // read older files only if the newer ones have too few records
		if len(newest) >= f.Limit {
			break
		}
		some, bad, err := p.newest(f, f.Limit-len(newest))
		for _, err := range bad {
			if !yield(nil, err) {
				return false
			}
		}
		if err != nil {
			yield(nil, err)
			return false
		}
		newest = append(some, newest...)
	}
	for _, s := range newest { // read again, so that only one record is in memory
		r, err := s.record()
		if !yield(r, err) || err != nil {
			return false
		}
	}
	return true
}

// span is a line of a file.
type span struct {
	of   *part
	at   int64
	size int
	line int   // as in LineError
	bad  error // the error of a line that cannot be parsed
}

// record returns the line's record, or nil for a blank line.
func (s span) record() (*supervisorv1.AuditRecord, error) {
	if s.bad != nil {
		return nil, s.bad
	}
	line := make([]byte, s.size)
	if _, err := s.of.file.ReadAt(line, s.at); err != nil {
		return nil, fmt.Errorf("read %s: %w", s.of.name, err)
	}
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, nil //nolint:nilnil // a blank line is no record, and nothing is wrong with it
	}
	r, err := parse(line)
	if err != nil {
		return nil, &LineError{s.of.name, s.line, err}
	}
	return r, nil
}

// newest returns the last n complete lines with matching records, oldest first, and the *LineErrors of the lines among
// them. It parses only the lines that it needs, from the end on.
func (p *part) newest(f Filter, n int) (last []span, bad []error, err error) {
	var lines []span
	for {
		s := span{of: p, at: p.at}
		line, err := p.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if lineErr, tooLong := errors.AsType[*LineError](err); tooLong {
			s.bad = lineErr
		} else if err != nil {
			return nil, nil, err
		}
		s.size, s.line = len(line), max(p.line, 0)
		lines = append(lines, s)
	}
	for _, s := range slices.Backward(lines) {
		if len(last) == n {
			break
		}
		r, err := s.record()
		if _, isBad := errors.AsType[*LineError](err); isBad {
			bad = append(bad, err)
		} else if err != nil {
			return nil, nil, err
		} else if r != nil && f.wants(r) {
			last = append(last, s)
		}
	}
	slices.Reverse(last)
	slices.Reverse(bad)
	return last, bad, nil
}

// records yields the matching records of complete lines, as deliver does. It may be called again after more lines were
// written.
func (p *part) records(f Filter, yield func(*supervisorv1.AuditRecord, error) bool) bool {
	for {
		r, err := p.record()
		if errors.Is(err, io.EOF) {
			return true
		}
		if err == nil && !f.wants(r) {
			continue
		}
		_, bad := errors.AsType[*LineError](err)
		if !yield(r, err) || err != nil && !bad {
			return false
		}
	}
}

// record returns the record of the next complete line that is not blank. The error is the error of next, or a
// *LineError.
func (p *part) record() (*supervisorv1.AuditRecord, error) {
	for {
		line, err := p.next()
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		r, err := parse(line)
		if err != nil {
			return nil, &LineError{p.name, max(p.line, 0), err}
		}
		return r, nil
	}
}

// next returns the next complete line, io.EOF if there is none yet, or a *LineError for a line that is too long.
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
		case err != nil: // an incomplete line may be completed or removed later
			if _, seekErr := p.file.Seek(p.at, io.SeekStart); seekErr != nil {
				return nil, seekErr
			}
			p.r.Reset(p.file)
			return nil, fmt.Errorf("read %s: %w", p.name, err)
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

// seekEnd skips all complete lines.
func (p *part) seekEnd() error {
	_, at, err := ownfile.TornTail(p.file)
	if err != nil {
		return err
	}
	return p.seek(at)
}

// current reports whether name is a name of this file.
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
	if f.Cwd != "" && !slices.ContainsFunc(r.GetAction().GetRoots(), func(root string) bool {
		rel, err := filepath.Rel(f.Cwd, root)
		return err == nil && filepath.IsLocal(rel)
	}) {
		return false
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
