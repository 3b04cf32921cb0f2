package grant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/ownfile"
)

const (
	// maxFile is the size in bytes beyond which a file is none of ours.
	maxFile = 16 << 20
	// maxLine is the longest line in bytes.
	maxLine = 1 << 20
	// compactAt is the size in bytes from which on a file is rewritten when most of it is of no use any more.
	compactAt = 64 << 10
)

// file is the grants that outlive their sessions. It is only ever appended to: a line for each grant, and a line for
// each revocation; it is rewritten as a whole when it has grown. Its fields are guarded by the Store.
type file struct {
	path   string
	logger *slog.Logger

	// content is what it holds. The grants are not changed once they stand here.
	content
	// known are the lines that were there when a person last had the file read, and those that this process has added.
	// Agents of the same user can write to the file: what else gives leave there waits for a person.
	known map[string]bool
	// counting are those of grants that count: those that refuse, and those that are known.
	counting []*supervisorv1.Grant
	// seen is the file as it was when it was last read, nil if there was none.
	seen fs.FileInfo
	// failed is why it could not be read the last time; empty if it could.
	failed string
}

// reload reads the file if it is not as it was. After an error it grants nothing.
func (f *file) reload() error {
	info, err := os.Lstat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.forget()
		return nil
	case err == nil && f.failed == "" && unchanged(f.seen, info):
		return nil
	}
	data, info, err := f.read()
	if errors.Is(err, fs.ErrNotExist) { // it went in between
		f.forget()
		return nil
	}
	if err != nil {
		f.grants, f.text, f.counting, f.seen = nil, nil, nil, nil
		if f.failed != err.Error() {
			f.failed = err.Error()
			f.logger.Warn("remembered answers cannot be read, so there are none", "file", f.path, "error", err)
		}
		return err
	}
	c := parse(data)
	for _, p := range c.problems {
		f.logger.Warn("a line of the remembered answers cannot be used", "file", f.path, "line", p.line, "error", p.err)
	}
	if c.distrusted > 0 {
		f.logger.Warn("remembered answers before a line that may have taken them back do not count",
			"file", f.path, "answers", c.distrusted)
	}
	f.content, f.seen, f.failed = c, info, ""
	f.count()
	return nil
}

// forget is for a file that is not there.
func (f *file) forget() { *f = file{path: f.path, logger: f.logger} }

// count works out which grants count.
func (f *file) count() {
	before := len(f.grants) - len(f.counting)
	f.counting = nil
	still := map[string]bool{} // what was taken back is not known any more, should it stand there again
	for _, g := range f.grants {
		line := f.text[g.GetId()]
		known := f.known[line]
		if known {
			still[line] = true
		}
		if known || g.GetRefuse() {
			f.counting = append(f.counting, g)
		}
	}
	f.known = still
	if waiting := len(f.grants) - len(f.counting); waiting > 0 && waiting != before {
		f.logger.Warn(`answers that another process has added to those remembered wait for "acphost policy reload"`, "file", f.path, "answers", waiting)
	}
}

// know has all count that the file holds now.
func (f *file) know() error {
	if err := f.reload(); err != nil {
		return err
	}
	for _, line := range f.text {
		f.remember(line)
	}
	f.count()
	return nil
}

// remember has a line count that is about to stand in the file.
func (f *file) remember(line string) {
	if f.known == nil {
		f.known = map[string]bool{}
	}
	f.known[line] = true
}

func unchanged(a, b fs.FileInfo) bool {
	return a != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

// read returns what is in the file. It needs no lock: lines are appended, and a last one without its end does not count.
func (f *file) read() ([]byte, fs.FileInfo, error) {
	r, err := ownfile.Read(f.path)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	switch {
	case err != nil:
		return nil, nil, err
	case len(data) > maxFile:
		return nil, nil, fmt.Errorf("%s is larger than %d bytes; move it away", f.path, maxFile)
	}
	return data, info, nil
}

func (f *file) add(now time.Time, grants []*supervisorv1.Grant) error {
	return f.write(now, func() ([]byte, error) {
		var lines []byte
		for _, g := range grants {
			if slices.ContainsFunc(f.grants, func(have *supervisorv1.Grant) bool { return have.GetId() == g.GetId() }) {
				return nil, fmt.Errorf("there is a grant %q already", g.GetId())
			}
			line, err := Line(g)
			if err != nil {
				return nil, err
			}
			if len(line) >= maxLine {
				return nil, fmt.Errorf("grant %q takes more than %d bytes", g.GetId(), maxLine)
			}
			f.remember(string(line))
			lines = append(append(lines, line...), '\n')
		}
		return lines, nil
	})
}

func (f *file) revoke(now time.Time, ids []string) (revoked []*supervisorv1.Grant, err error) {
	if f.path == "" {
		return nil, unknown(ids)
	}
	if _, err := os.Lstat(f.path); errors.Is(err, fs.ErrNotExist) {
		return nil, unknown(ids) // nothing to make a file for
	}
	err = f.write(now, func() ([]byte, error) {
		var missing []string
		for _, id := range ids {
			i := slices.IndexFunc(f.grants, func(g *supervisorv1.Grant) bool { return g.GetId() == id && !expired(g, now) })
			if i < 0 {
				missing = append(missing, id)
				continue
			}
			revoked = append(revoked, f.grants[i])
		}
		if len(missing) > 0 {
			return nil, unknown(missing)
		}
		line, err := json.Marshal(revocation{Revoked: ids, Time: now.UTC().Format(time.RFC3339Nano)})
		return append(line, '\n'), err
	})
	return revoked, err
}

func unknown(ids []string) error {
	return fmt.Errorf("%w: %s", ErrUnknown, strings.Join(ids, ", "))
}

// write appends what lines returns. It has the file locked and read when it calls lines, so that what that looks at is
// what holds.
func (f *file) write(now time.Time, lines func() ([]byte, error)) error {
	w, err := f.lock()
	if err != nil {
		return err
	}
	defer w.Close() // and with it the lock
	if err := f.mend(w); err != nil {
		return err
	}
	if err := f.reload(); err != nil {
		return err
	}
	data, err := lines()
	if err != nil {
		return err
	}
	if f.seen != nil && f.seen.Size()+int64(len(data)) > maxFile {
		return fmt.Errorf("%s would grow beyond %d bytes; revoke some of it first", f.path, maxFile)
	}
	if err := ownfile.AppendAll(w, data); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	if err := w.Sync(); err != nil {
		err = fmt.Errorf("write %s to the disk: %w", f.path, err)
		if info, at := w.Stat(); at == nil { // what was not kept must not hold either
			err = errors.Join(err, w.Truncate(info.Size()-int64(len(data))))
		}
		return err
	}
	if f.seen == nil || f.seen.Size() == 0 { // it may be new
		if err := ownfile.SyncDir(filepath.Dir(f.path)); err != nil {
			return fmt.Errorf("write %s to the disk: %w", filepath.Dir(f.path), err)
		}
	}
	if err := f.reload(); err != nil {
		return err
	}
	if err := f.compact(now); err != nil {
		f.logger.Warn("the remembered answers could not be rewritten; they grow", "file", f.path, "error", err)
	}
	return nil
}

// lock opens the file and locks it. One that was replaced while it was waited for is opened again.
func (f *file) lock() (*os.File, error) {
	deadline := time.Now().Add(ownfile.LockTimeout)
	for {
		w, err := ownfile.Append(f.path)
		if err != nil {
			return nil, err
		}
		if err := ownfile.Lock(w, deadline); err != nil {
			_ = w.Close()
			return nil, err
		}
		if ownfile.Current(w) {
			return w, nil
		}
		_ = w.Close()
		if !time.Now().Before(deadline) {
			return nil, fmt.Errorf("%s keeps being replaced", f.path)
		}
	}
}

// mend cuts off a last line that a crash has torn: whoever wrote it was not told that it holds.
func (f *file) mend(w *os.File) error {
	tail, at, err := ownfile.TornTail(w)
	if err != nil || len(tail) == 0 {
		return err
	}
	if err := w.Truncate(at); err != nil {
		return fmt.Errorf("cut off the torn last line of %s: %w", f.path, err)
	}
	f.logger.Warn("the last remembered answer was torn by a crash and is cut off", "file", f.path, "bytes", len(tail))
	return nil
}

// compact rewrites the file without what is of no use any more, once that is most of a file that has grown. It is called
// with the lock held; who waits for it finds that the file was replaced.
func (f *file) compact(now time.Time) error {
	live := slices.DeleteFunc(slices.Clone(f.grants), func(g *supervisorv1.Grant) bool { return expired(g, now) })
	if f.seen == nil || f.seen.Size() < compactAt || 2*len(live) > f.lines {
		return nil
	}
	var data []byte
	for _, g := range live {
		line, err := Line(g)
		if err != nil {
			return err
		}
		data = append(append(data, line...), '\n')
	}
	err := ownfile.Write(f.path, true, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	return errors.Join(ownfile.SyncDir(filepath.Dir(f.path)), f.reload())
}

// Line returns a grant as it stands in the file: one line of JSON, without its end.
func Line(g *supervisorv1.Grant) ([]byte, error) {
	spaced, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(g)
	if err != nil {
		return nil, fmt.Errorf("write grant %q as JSON: %w", g.GetId(), err)
	}
	var line bytes.Buffer // protojson puts blanks in at random
	if err := json.Compact(&line, spaced); err != nil {
		return nil, fmt.Errorf("write grant %q as JSON: %w", g.GetId(), err)
	}
	return line.Bytes(), nil
}

// revocation is a line that takes grants back.
type revocation struct {
	Revoked []string `json:"revoked"`
	Time    string   `json:"time"`
}

// content is what a file says.
type content struct {
	grants     []*supervisorv1.Grant // oldest first
	text       map[string]string     // the lines of grants, by their ids
	lines      int
	problems   []problem
	distrusted int // grants that no longer count, since a line that cannot be read may have taken them back
}

type problem struct {
	line int // from 1
	err  error
}

// parse reads the lines of a file. One that cannot be used is skipped, and never loosens: unless it is certain that it
// did not take back or refuse anything, no leave that was given before it counts any more.
func parse(data []byte) content {
	c := content{text: map[string]string{}}
	ids := map[string]bool{}
	for len(data) > 0 {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		data = rest
		if !whole {
			c.problems = append(c.problems, problem{c.lines + 1, fmt.Errorf("it is cut off after %d bytes: the disk was full, or acphost was killed, while it was written", len(line))})
			break // the next writer removes it
		}
		c.lines++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		g, gone, err := parseLine(line)
		if err == nil && g != nil && ids[g.GetId()] {
			err = fmt.Errorf("grant %q stands here a second time", g.GetId())
		}
		switch {
		case err != nil:
			c.problems = append(c.problems, problem{c.lines, err})
			if !loosening(line) {
				had := len(c.grants)
				c.grants = slices.DeleteFunc(c.grants, func(g *supervisorv1.Grant) bool { return !g.GetRefuse() })
				c.distrusted += had - len(c.grants)
			}
		case g != nil:
			ids[g.GetId()] = true
			c.text[g.GetId()] = string(line)
			c.grants = append(c.grants, g)
		default:
			c.grants = slices.DeleteFunc(c.grants, func(g *supervisorv1.Grant) bool { return slices.Contains(gone, g.GetId()) })
		}
	}
	return c
}

// parseLine returns a grant, or the ids that a revocation names.
func parseLine(line []byte) (*supervisorv1.Grant, []string, error) {
	if len(line) > maxLine {
		return nil, nil, fmt.Errorf("it is longer than %d bytes", maxLine)
	}
	var r revocation
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err == nil && !d.More() && len(r.Revoked) > 0 {
		return nil, r.Revoked, nil
	}
	g := &supervisorv1.Grant{}
	if err := protojson.Unmarshal(line, g); err != nil {
		return nil, nil, fmt.Errorf("it is neither a grant nor a revocation: %w", err)
	}
	if err := check(g); err != nil {
		return nil, nil, err
	}
	if ofSession(g.GetScope()) {
		return nil, nil, fmt.Errorf("grant %q: what is granted for a session does not outlive it", g.GetId())
	}
	return g, nil, nil
}

// loosening reports whether a line that cannot be used would have given leave, and done nothing else.
func loosening(line []byte) bool {
	var names map[string]json.RawMessage
	if json.Unmarshal(line, &names) != nil {
		return false
	}
	for name, value := range names {
		if strings.EqualFold(name, "revoked") || strings.EqualFold(name, "refuse") && string(value) != "false" {
			return false
		}
	}
	_, is := names["scope"]
	return is
}
