package chat

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acphost/acphost/services/supervisor/internal/ownfile"
	"github.com/acphost/acphost/services/supervisor/internal/secret"
)

// Bounds of what is remembered.
const (
	historyEntries = 1000
	historyBytes   = 1 << 20 // of the file
	historyEntry   = 16 << 10
)

// history is what was typed before, oldest first. It is a file of JSON strings, one a line; without a file it lasts as
// long as the program.
type history struct {
	file    string // empty: none
	entries []string

	at    int    // what is shown; len(entries): what is being written
	draft string // what was being written
}

// openHistory reads the history of a state folder; an empty dir keeps none. What cannot be read is an error, and there is
// a history without a file.
func openHistory(dir string) (*history, error) {
	h := &history{}
	if dir == "" {
		return h, nil
	}
	file := filepath.Join(dir, "chat_history")
	f, err := ownfile.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		h.file = file
		return h, nil
	}
	if err != nil {
		return h, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return h, err
	}
	// Only the end counts of a file that is too long, and the first line of it may be half of one.
	text, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-historyBytes), historyBytes))
	if err != nil {
		return h, err
	}
	for l := range bytes.Lines(text) {
		var entry string
		if json.Unmarshal(l, &entry) == nil && entry != "" {
			h.entries = append(h.entries, typed(entry))
		}
	}
	h.entries = slices.Clip(h.entries[max(0, len(h.entries)-historyEntries):])
	h.at = len(h.entries)
	h.file = file
	return h, nil
}

// Add remembers what was typed, and what to do to keep it: nil where there is nothing to do. The file has no secrets of it.
func (h *history) Add(entry string) (keep func() error) {
	h.draft = ""
	if entry == "" || len(entry) > historyEntry || len(h.entries) > 0 && h.entries[len(h.entries)-1] == entry {
		h.at = len(h.entries)
		return nil
	}
	h.entries = append(h.entries, entry)
	h.entries = h.entries[max(0, len(h.entries)-historyEntries):]
	h.at = len(h.entries)
	if h.file == "" {
		return nil
	}
	file := h.file
	return func() error { return appendHistory(file, secret.Text(entry)) }
}

// Back is the entry before what is shown; text is what is in the input now. False: there is none.
func (h *history) Back(text string) (string, bool) {
	if h.at == 0 {
		return "", false
	}
	if h.at == len(h.entries) {
		h.draft = text
	}
	h.at--
	return h.entries[h.at], true
}

// Forward is the entry after what is shown, and behind the last what was being written. False: it is shown already.
func (h *history) Forward() (string, bool) {
	if h.at >= len(h.entries) {
		return "", false
	}
	h.at++
	if h.at == len(h.entries) {
		return h.draft, true
	}
	return h.entries[h.at], true
}

// appendHistory adds an entry to the file, and cuts the file to its newer half when it is twice as long as it should be.
func appendHistory(file, entry string) error {
	l, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	f, err := ownfile.Append(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := ownfile.Lock(f, time.Now().Add(ownfile.LockTimeout)); err != nil {
		return err
	}
	defer ownfile.Unlock(f)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() > 2*historyBytes {
		if err := cutHistory(f, info.Size()); err != nil {
			return err
		}
	}
	_, err = f.Write(append(l, '\n'))
	return err
}

func cutHistory(f *os.File, size int64) error {
	text, err := io.ReadAll(io.NewSectionReader(f, size-historyBytes/2, historyBytes/2))
	if err != nil {
		return err
	}
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.Write(text) // the file was opened for appending: at its end, which is its beginning now
	return err
}
