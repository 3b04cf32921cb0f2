package hosting

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
)

// File is a file of the caller that is sent to an agent.
type File struct {
	Path string // absolute
	Data []byte // nil: the file is too large
	MIME string
	Size int64 // bytes
}

// ReadFile reads a regular file of at most limit bytes.
func ReadFile(name string, limit int) (*File, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path) // before opening, which would block for a pipe
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
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	at := &File{Path: path, Data: data, MIME: mediaType(data), Size: info.Size()}
	if len(data) > limit {
		at.Data, at.Size = nil, max(at.Size, int64(len(data)))
	}
	return at, nil
}

// mediaType determines the media type by the content, because a name is unreliable.
func mediaType(data []byte) string {
	kind, _, err := mime.ParseMediaType(http.DetectContentType(data))
	if err != nil {
		return "application/octet-stream"
	}
	return kind
}
