package files

import (
	"io"
	"unsafe"

	"github.com/acphost/acphost/internal/textform"
)

// formHeadSize is the number of bytes of a file that are read to check whether it may have a form to keep.
const formHeadSize = 4 << 10

// keepForm converts the new content to the form of the old one. A file that is not readable has no form.
func (w *writer) keepForm() error {
	if w.state.asSent || !w.exists() || len(w.content) == 0 || w.meta.size == 0 || w.meta.size > w.state.maxContent {
		return nil
	}
	old, err := w.readOld(min(w.meta.size, formHeadSize))
	if err != nil || !textform.May(old) {
		return nil //nolint:nilerr // the form of an unreadable file is not kept
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
		return errContentTooLarge(size, w.state.maxContent, w.target.requested)
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

// readBytes returns the first bytes of the old content. It fails if the file is shorter.
func (w *writer) readBytes(size int64) ([]byte, error) {
	content := make([]byte, size)
	for have := 0; have < len(content); {
		n, err := pread(w.old, content[have:], int64(have))
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, io.ErrUnexpectedEOF // the file is shrinking
		}
		have += n
	}
	return content, nil
}
