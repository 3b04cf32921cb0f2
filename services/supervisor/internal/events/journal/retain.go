package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/acphost/acphost/internal/ownfile"
)

// Mend removes incomplete last lines, left by crashes, from all files that are not being written, and returns the
// number of changed files.
func Mend(dir string) (mended int, err error) {
	files, err := Files(dir, true)
	if err != nil {
		return 0, err
	}
	for _, path := range files {
		torn, ferr := mendFile(path)
		err = errors.Join(err, ferr)
		if torn {
			mended++
		}
	}
	return mended, err
}

func mendFile(path string) (torn bool, err error) {
	if whole(path) {
		return false, nil
	}
	f, held, err := lockIdle(path)
	if err != nil || !held {
		return false, err
	}
	defer f.Close()
	n, err := mend(f, time.Now())
	return n > 0, err
}

// whole reports whether a file's last line is complete, or the file has no line.
func whole(path string) bool {
	f, err := ownfile.Read(path)
	if err != nil {
		return true
	}
	defer f.Close()
	end, size, err := ownfile.LastEnd(f)
	return err != nil || end == size
}

// lockIdle opens and locks a file. held is false if the file is being written.
func lockIdle(path string) (f *os.File, held bool, err error) {
	if _, err := os.Lstat(path); err != nil {
		return nil, false, gone(err)
	}
	if f, err = ownfile.Append(path); err != nil {
		return nil, false, gone(err)
	}
	if err := ownfile.Lock(f, time.Now()); err != nil {
		_ = f.Close()
		if errors.Is(err, ownfile.ErrLocked) {
			err = nil
		}
		return nil, false, err
	}
	return f, true, nil
}

func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Retain removes the files that were last written before now minus maxAge, and then the oldest ones until the others
// have at most maxTotal bytes. It keeps files that are being written.
func Retain(dir string, maxAge time.Duration, maxTotal int64, now time.Time) error {
	files, err := Files(dir, true)
	if err != nil {
		return err
	}
	type aged struct {
		path string
		size int64
		at   time.Time
	}
	var all []aged
	var total int64
	for _, path := range files {
		info, err := os.Lstat(path)
		if err != nil {
			continue
		}
		all = append(all, aged{path, info.Size(), info.ModTime()})
		total += info.Size()
	}
	slices.SortFunc(all, func(a, b aged) int { return a.at.Compare(b.at) })
	var errs []error
	for _, f := range all {
		if now.Sub(f.at) <= maxAge && total <= maxTotal {
			break
		}
		removed, err := remove(f.path)
		errs = append(errs, err)
		if removed {
			total -= f.size
			_ = os.Remove(filepath.Dir(f.path)) // succeeds if it was the last file of its day
		}
	}
	return errors.Join(errs...)
}

func remove(path string) (bool, error) {
	f, held, err := lockIdle(path)
	if err != nil || !held {
		return false, err
	}
	defer f.Close()
	if err := os.Remove(path); err != nil {
		return false, gone(err)
	}
	return true, nil
}

// Live reports whether a file is being written.
func Live(path string) bool {
	f, held, err := lockIdle(path)
	if held {
		_ = f.Close()
	}
	return err == nil && !held
}
