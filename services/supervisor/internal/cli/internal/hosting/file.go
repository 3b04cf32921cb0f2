package hosting

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
)

// File is a file of the caller's that is given to an agent.
type File struct {
	Path string // absolute
	Data []byte // nil: it has more bytes than were to be read
	MIME string
	Size int64 // bytes
}

// ReadFile reads a regular file, if it has at most so many bytes.
func ReadFile(name string, most int) (*File, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path) // before it is opened: opening a pipe waits for its other end
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file: name files, or a folder in the text", name)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	at := &File{Path: path, Data: data, MIME: mediaType(data), Size: info.Size()}
	if len(data) > most {
		at.Data, at.Size = nil, max(at.Size, int64(len(data)))
	}
	return at, nil
}

// mediaType is told by the content: a name can say anything.
func mediaType(data []byte) string {
	kind, _, err := mime.ParseMediaType(http.DetectContentType(data))
	if err != nil {
		return "application/octet-stream"
	}
	return kind
}
