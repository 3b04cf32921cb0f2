package audit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Brief contains the members of a record that statistics need.
type Brief struct {
	Time    time.Time `json:"time"`
	Agent   string    `json:"agent"`
	Door    string    `json:"door"`
	Verdict string    `json:"verdict"`
	// LatencyMicros is the time of the decision without the user, in microseconds. AskedMillis is the time until the
	// user answered, in milliseconds.
	LatencyMicros uint32 `json:"latency_micros"`
	AskedMillis   uint32 `json:"asked_millis"`
	// Repeats is the number of further times that the action was allowed. 0 means that the record is about one action.
	Repeats uint64 `json:"repeats,string"`
	Note    string `json:"note"`
}

// Tally computes sums of the decisions in the files of an audit, one T for each file. It reads each line once: it
// caches the sum of a file, also after rotation. It is not safe for concurrent use.
type Tally[T any] struct {
	file  string
	add   func(sum *T, b *Brief)
	keep  func(sum *T) bool
	parts []*tallied[T]
}

// tallied is the cached state of a file.
type tallied[T any] struct {
	info os.FileInfo // which file
	at   int64       // start of the next line
	tail []byte      // the bytes before at, by which the same file is recognized
	sum  T
}

// maxTallyTail limits the bytes by which a file is recognized.
const maxTallyTail = 1 << 10

// NewTally returns a Tally of an audit's file and its rotated files. add adds a decision to a sum. keep reports whether
// a sum is small enough for the cache; other files are read again each time.
func NewTally[T any](file string, add func(sum *T, b *Brief), keep func(sum *T) bool) *Tally[T] {
	return &Tally[T]{file: file, add: add, keep: keep}
}

// Sums returns the sums of the files, oldest first. It omits files that were last written before from, because they
// contain no later records. It reads only lines that were written since the last call, several times as fast as Read,
// and skips lines that cannot be parsed. The caller must not modify the sums; the next call changes them. A missing
// file has no sum.
func (t *Tally[T]) Sums(ctx context.Context, from time.Time) (sums []*T, err error) {
	files, err := openAll(t.file, nil)
	if errors.Is(err, fs.ErrNotExist) {
		t.parts = nil
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closeAll(files)
	var there []*tallied[T]
	for _, p := range files {
		info, err := p.file.Stat()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", p.name, err)
		}
		known := slices.IndexFunc(t.parts, func(k *tallied[T]) bool { return os.SameFile(k.info, info) })
		if info.ModTime().Before(from) {
			if known >= 0 {
				there = append(there, t.parts[known])
			}
			continue
		}
		if known < 0 {
			known = len(t.parts)
			t.parts = append(t.parts, &tallied[T]{})
		}
		k := t.parts[known]
		k.info = info
		if err := k.read(ctx, p, t.add); err != nil {
			return nil, err
		}
		sums = append(sums, &k.sum)
		if t.keep(&k.sum) {
			there = append(there, k)
		}
	}
	t.parts = there
	return sums, nil
}

// read adds the lines that were written to the file since the last read. If it is not the same file, read reads it from
// its start.
func (k *tallied[T]) read(ctx context.Context, p *part, add func(*T, *Brief)) error {
	if !k.unchanged(p) {
		*k = tallied[T]{info: k.info}
	}
	from := k.at
	if err := p.seek(k.at); err != nil {
		return err
	}
	err := p.briefs(ctx, func(b *Brief) { add(&k.sum, b) })
	if k.at = p.at; k.at == from {
		return err
	}
	k.tail = make([]byte, min(k.at, maxTallyTail))
	if _, failed := p.file.ReadAt(k.tail, k.at-int64(len(k.tail))); failed != nil { // the file was truncated meanwhile
		*k = tallied[T]{info: k.info}
		err = cmp.Or(err, fmt.Errorf("read %s: %w", p.name, failed))
	}
	return err
}

// unchanged reports whether the file still contains the bytes that were read. It may have been truncated or replaced.
func (k *tallied[T]) unchanged(p *part) bool {
	there := make([]byte, len(k.tail))
	_, err := p.file.ReadAt(there, k.at-int64(len(there)))
	return err == nil && bytes.Equal(there, k.tail)
}

// seek sets the position of the next line.
func (p *part) seek(at int64) error {
	if _, err := p.file.Seek(at, io.SeekStart); err != nil {
		return fmt.Errorf("read %s: %w", p.name, err)
	}
	p.r.Reset(p.file)
	p.at, p.line = at, -1
	return nil
}

// briefs yields the decisions in the following lines.
func (p *part) briefs(ctx context.Context, yield func(*Brief)) error {
	for n := 0; ; n++ {
		if n%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		line, err := p.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if _, bad := errors.AsType[*LineError](err); bad {
			continue
		}
		if err != nil {
			return err
		}
		var b Brief
		if json.Unmarshal(line, &b, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) == nil && b.Note == "" {
			yield(&b)
		}
	}
}
