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

	"github.com/acphost/acphost/internal/ownfile"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

const (
	// maxFile limits the size of the file in bytes. A larger file is rejected.
	maxFile = 16 << 20
	// maxLine limits the bytes of a line.
	maxLine = 1 << 20
	// compactAt is the size in bytes from which on a file is rewritten if most of it is obsolete.
	compactAt = 64 << 10
)

// file stores the grants that outlive their sessions. Each grant and each revocation appends a line. A large file is
// rewritten as a whole. The Store guards the fields.
type file struct {
	path   string
	logger *slog.Logger

	// content is the parsed file. Its grants are immutable.
	content
	// known contains the lines that the file had when a user last loaded it, and the lines that this process has added.
	// Agents of the same user can write to the file, so other grants that allow are not effective until a user loads
	// the file.
	known map[string]bool
	// counting are the effective grants: those that refuse, and those that are known.
	counting []*supervisorv1.Grant
	// seen describes the file at the last read. It is nil if the file did not exist.
	seen fs.FileInfo
	// failed is the error of the last read, or empty.
	failed string
}

// reload reads the file if it has changed. After an error there are no grants.
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
	if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile
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

// forget clears the state if the file does not exist.
func (f *file) forget() { *f = file{path: f.path, logger: f.logger} }

// count determines the effective grants.
func (f *file) count() {
	before := len(f.grants) - len(f.counting)
	f.counting = nil
	still := map[string]bool{} // a revoked grant is no longer known, even if its line appears again
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

// markAllKnown makes all grants in the file effective.
func (f *file) markAllKnown() error {
	if err := f.reload(); err != nil {
		return err
	}
	for _, line := range f.text {
		f.remember(line)
	}
	f.count()
	return nil
}

// remember marks a line as known before it is written.
func (f *file) remember(line string) {
	if f.known == nil {
		f.known = map[string]bool{}
	}
	f.known[line] = true
}

func unchanged(a, b fs.FileInfo) bool {
	return a != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

// read returns the content of the file. It needs no lock: lines are appended, and an incomplete last line is ignored.
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
		return nil, unknown(ids) // do not create the file
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

// write appends the result of lines. It calls lines when the file is locked and read, so that lines uses the current
// state.
func (f *file) write(now time.Time, lines func() ([]byte, error)) error {
	w, err := f.lock()
	if err != nil {
		return err
	}
	defer w.Close() // also releases the lock
	if err := f.trimTorn(w); err != nil {
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
		if info, at := w.Stat(); at == nil { // grants that were not stored must not be effective
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

// lock opens and locks the file. If another process has replaced the file meanwhile, lock opens it again.
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

// trimTorn removes an incomplete last line, which a crash has left. Its writer did not report success.
func (f *file) trimTorn(w *os.File) error {
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

// compact rewrites a large file without its obsolete lines, if these are most of it. The lock is held. Processes that
// wait for the lock notice that the file was replaced.
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

// Line returns a grant as a line of the file: JSON without a line feed.
func Line(g *supervisorv1.Grant) ([]byte, error) {
	spaced, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(g)
	if err != nil {
		return nil, fmt.Errorf("write grant %q as JSON: %w", g.GetId(), err)
	}
	var line bytes.Buffer // protojson inserts random spaces
	if err := json.Compact(&line, spaced); err != nil {
		return nil, fmt.Errorf("write grant %q as JSON: %w", g.GetId(), err)
	}
	return line.Bytes(), nil
}

// revocation is a line that revokes grants.
type revocation struct {
	Revoked []string `json:"revoked"`
	Time    string   `json:"time"`
}

// content is the parsed content of a file.
type content struct {
	grants     []*supervisorv1.Grant // oldest first
	text       map[string]string     // the lines of grants, by their ids
	lines      int
	problems   []problem
	distrusted int // grants that are ignored, because an unreadable line may have revoked them
}

type problem struct {
	line int // from 1
	err  error
}

// parse parses the lines of a file. It skips an unreadable line. If such a line may have revoked or refused something,
// parse ignores the grants that allow before it.
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

// parseLine returns a grant, or the ids in a revocation.
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

// loosening reports whether an unreadable line can only have been a grant that allows.
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
