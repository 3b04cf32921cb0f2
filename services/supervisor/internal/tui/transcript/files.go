package transcript

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"

	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
)

// Read reads the files of a session, oldest first, and passes their entries to tell. bad, if not nil, is called for
// each line that cannot be parsed. Read returns the first error of tell, or the error of a file that cannot be read.
func Read(files []journal.Session, bad func(error), tell func(Entry) error) error {
	r := NewReader()
	for _, f := range files {
		if err := r.file(f, bad, tell); err != nil {
			return err
		}
	}
	return each(r.Close(), tell)
}

// Follow is Read that also returns lines that are added to the newest file, until ctx ends.
func Follow(ctx context.Context, files []journal.Session, bad func(error), tell func(Entry) error) error {
	r := NewReader()
	last := len(files) - 1
	for _, f := range files[:last] {
		if err := r.file(f, bad, tell); err != nil {
			return err
		}
	}
	if err := r.all(journal.Follow(ctx, files[last].File), bad, tell); err != nil {
		return err
	}
	return each(r.Close(), tell)
}

func (r *Reader) file(f journal.Session, bad func(error), tell func(Entry) error) error {
	if err := r.all(journal.Read(f.File), bad, tell); err != nil {
		return err
	}
	if f.Live || !torn(f.File) {
		return nil
	}
	return each(r.Read(&journal.Entry{Time: r.at, Note: "the last line was torn by a crash"}), tell)
}

func (r *Reader) all(entries iter.Seq2[*journal.Entry, error], bad func(error), tell func(Entry) error) error {
	for e, err := range entries {
		if _, ok := errors.AsType[*journal.LineError](err); ok {
			if bad != nil {
				bad(err)
			}
			err = each(r.Unread(), tell)
		} else if err == nil {
			err = each(r.Read(e), tell)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func each(all []Entry, tell func(Entry) error) error {
	for _, t := range all {
		if err := tell(t); err != nil {
			return err
		}
	}
	return nil
}

// torn reports whether a file ends with an incomplete line, and has no writer.
func torn(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || end == 0 {
		return false
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], end-1)
	return err == nil && last[0] != '\n'
}
