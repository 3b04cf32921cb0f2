package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	// Repeats is how many times more the action was allowed; 0: the record is of one action.
	Repeats uint64 `json:"repeats,string"`
	Note    string `json:"note"`
}

// Briefs yields the decisions in an audit's files from one time until another, oldest first. It reads several times as
// fast as Read, and leaves out lines that it cannot read. A file that is missing has none. An error of yield is
// returned as it is.
func Briefs(ctx context.Context, file string, from, until time.Time, yield func(*Brief) error) error {
	parts, err := openAll(file, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer closeAll(parts)
	for _, p := range parts {
		info, err := p.file.Stat()
		if err != nil {
			return fmt.Errorf("read %s: %w", p.name, err)
		}
		if info.ModTime().Before(from) {
			continue // so is all that stands in it
		}
		if err := p.briefs(ctx, from, until, yield); err != nil {
			return err
		}
	}
	return nil
}

// briefs is Briefs for one file.
func (p *part) briefs(ctx context.Context, from, until time.Time, yield func(*Brief) error) error {
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
		if at, ok := timeOf(line); ok && at.Before(from) {
			continue
		}
		var b Brief
		if json.Unmarshal(line, &b, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
			continue
		}
		if b.Note != "" || b.Time.Before(from) || !b.Time.Before(until) {
			continue
		}
		if err := yield(&b); err != nil {
			return err
		}
	}
}

// timeOf is the time of a line that begins with it, as format writes them; false: it does not.
func timeOf(line []byte) (time.Time, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"time":"`))
	if !ok {
		return time.Time{}, false
	}
	stamp, _, ok := bytes.Cut(rest, []byte{'"'})
	var at time.Time
	return at, ok && at.UnmarshalText(stamp) == nil
}
