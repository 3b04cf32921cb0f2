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

	"github.com/acphost/acphost/internal/ownfile"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
)

// Limits of the history.
const (
	historyEntries = 1000
	historyBytes   = 1 << 20 // size of the file
	historyEntry   = 16 << 10
)

// history is the history of the input, oldest first. It is stored in a file with a JSON string on each line. Without a
// file it is kept in memory.
type history struct {
	file    string // empty: no file
	entries []string

	at    int    // the displayed entry; len(entries): the draft
	draft string // the text that was being typed
}

// openHistory reads the history in a state folder. An empty dir keeps it in memory. If the file cannot be read,
// openHistory returns an error and a history without a file.
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
	// Read only the end of a file that is too long. Its first line may be incomplete.
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

// Add adds an entry, and returns a function that writes it to the file, or nil. Secrets are not written.
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

// Back returns the previous entry. text is the current input. It returns false if none exists.
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

// Forward returns the next entry, and the draft after the last one. It returns false if the draft is displayed.
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

// appendHistory appends an entry to the file. It reduces a file that exceeds twice its limit to its newer half.
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
	_, err = f.Write(text) // the file is in append mode: this writes at its end, which is now its beginning
	return err
}
