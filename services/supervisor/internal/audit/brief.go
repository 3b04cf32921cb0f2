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

// Brief is what figures are made of: a record without what it is about.
type Brief struct {
	Time    time.Time `json:"time"`
	Agent   string    `json:"agent"`
	Door    string    `json:"door"`
	Verdict string    `json:"verdict"`
	// LatencyMicros is how long the decision took without the user, in microseconds, and AskedMillis how long the user
	// took to answer, in milliseconds.
	LatencyMicros uint32 `json:"latency_micros"`
	AskedMillis   uint32 `json:"asked_millis"`
	// Repeats is how many times more the action was decided alike; 0: the record is of one action.
	Repeats uint64 `json:"repeats,string"`
	Note    string `json:"note"`
}

// Tally sums up the decisions in an audit's files, a T for each file. It reads a line once: what it has read of a
// file it keeps as the file's sum, also when the file is put aside. Not safe for concurrent use.
type Tally[T any] struct {
	file  string
	add   func(sum *T, b *Brief)
	keep  func(sum *T) bool
	parts []*tallied[T]
}

// tallied is what was read of a file.
type tallied[T any] struct {
	info os.FileInfo // which file
	at   int64       // where the next line begins
	tail []byte      // what stands before that, by which a file shows that it is still the one that was read
	sum  T
}

// maxTallyTail is how much of a file's end shows that it is the same, in bytes.
const maxTallyTail = 1 << 10

// NewTally returns a Tally of an audit's file and of those that were put aside. add adds a decision to a sum; keep
// reports whether a sum is small enough to be kept: else its file is read anew each time.
func NewTally[T any](file string, add func(sum *T, b *Brief), keep func(sum *T) bool) *Tally[T] {
	return &Tally[T]{file: file, add: add, keep: keep}
}

// Sums returns the sums of the files, oldest first, without those that were last written before a time, so that there
// is nothing in them from then on. It reads what was written since it was called last, several times as fast as Read
// does, and leaves out lines that it cannot read. They are not to be changed, and change with the next call. A file
// that is missing has none.
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

// read adds what was written to the file since it was read, or all of it if it is not what it was.
func (k *tallied[T]) read(ctx context.Context, p *part, add func(*T, *Brief)) error {
	if !k.goesOn(p) {
		*k = tallied[T]{info: k.info}
	}
	from := k.at
	if err := p.goTo(k.at); err != nil {
		return err
	}
	err := p.briefs(ctx, func(b *Brief) { add(&k.sum, b) })
	if k.at = p.at; k.at == from {
		return err
	}
	k.tail = make([]byte, min(k.at, maxTallyTail))
	if _, failed := p.file.ReadAt(k.tail, k.at-int64(len(k.tail))); failed != nil { // it was cut off meanwhile
		*k = tallied[T]{info: k.info}
		err = cmp.Or(err, fmt.Errorf("read %s: %w", p.name, failed))
	}
	return err
}

// goesOn reports whether what was read of the file still stands in it: it may have been cut off, or be another one.
func (k *tallied[T]) goesOn(p *part) bool {
	there := make([]byte, len(k.tail))
	_, err := p.file.ReadAt(there, k.at-int64(len(there)))
	return err == nil && bytes.Equal(there, k.tail)
}

// goTo has the next line be the one that begins at a place.
func (p *part) goTo(at int64) error {
	if _, err := p.file.Seek(at, io.SeekStart); err != nil {
		return fmt.Errorf("read %s: %w", p.name, err)
	}
	p.r.Reset(p.file)
	p.at, p.line = at, -1
	return nil
}

// briefs yields the decisions in the lines that follow.
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
