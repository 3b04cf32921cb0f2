package files

import (
	"io"
	"unsafe"

	"github.com/acphost/acphost/internal/textform"
)

// beginning is how much of a file is read to see whether it may have a form to keep.
const beginning = 4 << 10

// keepForm brings the new content into the form of the old one. A file that can only be written has none.
func (w *writer) keepForm() error {
	if w.state.asSent || !w.exists() || len(w.content) == 0 || w.meta.size == 0 || w.meta.size > w.state.maxContent {
		return nil
	}
	old, err := w.readOld(min(w.meta.size, beginning))
	if err != nil || !textform.May(old) {
		return nil //nolint:nilerr // what cannot be read cannot be kept
	}
	if old, err = w.readOld(w.meta.size); err != nil {
		return nil //nolint:nilerr // likewise
	}
	form := textform.Of(old)
	content := form.Apply(string(w.content))
	if len(content) == len(w.content) {
		return nil
	}
	if size := int64(len(content)); size > w.state.maxContent {
		return errContentTooLarge(size, w.state.maxContent, w.place.asked)
	}
	w.content = bytesOf(content)
	w.note("the file keeps its " + form.String())
	return nil
}

// readOld returns the first bytes of the old content, as text.
func (w *writer) readOld(size int64) (string, error) {
	content, err := w.readBytes(size)
	return unsafe.String(unsafe.SliceData(content), len(content)), err //nolint:gosec // nothing else keeps the bytes
}

// readBytes returns the first bytes of the old content. It fails if there are fewer.
func (w *writer) readBytes(size int64) ([]byte, error) {
	content := make([]byte, size)
	for have := 0; have < len(content); {
		n, err := pread(w.old, content[have:], int64(have))
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, io.ErrUnexpectedEOF // it is shrinking
		}
		have += n
	}
	return content, nil
}
