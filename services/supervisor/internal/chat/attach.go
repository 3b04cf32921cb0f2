package chat

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/acphost/acphost/internal/regular"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/fileref"
)

// Bounds of what is attached to a message; what is over is a link, which the agent may follow by itself.
const (
	maxAttached = 32
	// maxReferences bounds the references to files that are looked at in one message.
	maxReferences = 10_000
	maxEmbedded   = 256 << 10 // a text
	maxImage      = 5 << 20
)

// blocks is a message: the text as it was written, then the files that it mentions. What is no file is text alone.
func blocks(text, cwd string, can *supervisorv1.AgentCapabilities) ([]*supervisorv1.ContentBlock, error) {
	all := []*supervisorv1.ContentBlock{client.Text(text)}
	seen := map[string]bool{}
	for _, r := range fileref.In(text, maxReferences) {
		if r.Kind != fileref.Mention {
			continue
		}
		path, info := attached(cwd, r.Names)
		if info == nil || seen[path] {
			continue
		}
		if seen[path] = true; len(seen) > maxAttached {
			return nil, fmt.Errorf("more than %d files are attached; name the folder instead", maxAttached)
		}
		b, err := attachment(path, info, can)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// attached finds the file that is meant: the first of some names that exists.
func attached(cwd string, names []string) (string, os.FileInfo) {
	for _, n := range names {
		path := n
		if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(n, "~/") {
			path = filepath.Join(home, n[2:])
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(cwd, path)
		}
		if info, err := os.Stat(path); err == nil && (info.Mode().IsRegular() || info.IsDir()) {
			return filepath.Clean(path), info
		}
	}
	return "", nil
}

// attachment is a file's content where the agent takes it and it is not too long, else a link.
func attachment(path string, info os.FileInfo, can *supervisorv1.AgentCapabilities) (*supervisorv1.ContentBlock, error) {
	uri := (&url.URL{Scheme: "file", Path: path}).String()
	kind := mediaType(path)
	link := &supervisorv1.ResourceLink{Uri: uri, Name: filepath.Base(path), MimeType: kind}
	linked := client.Link(link)
	if info.IsDir() {
		link.MimeType = "inode/directory"
		return linked, nil
	}
	size := info.Size()
	link.Size = &size
	if size > maxImage || !can.GetPromptEmbeddedContext() && !can.GetPromptImage() {
		return linked, nil
	}
	data, err := regular.Read(path, maxImage)
	if err != nil {
		return nil, fmt.Errorf("attach %s: %w", path, err)
	}
	sniffed, _, _ := strings.Cut(http.DetectContentType(data), ";")
	switch sniffed {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		if can.GetPromptImage() {
			return client.Image(uri, sniffed, data), nil
		}
		return linked, nil
	}
	if !can.GetPromptEmbeddedContext() || len(data) > maxEmbedded {
		return linked, nil
	}
	if !strings.HasPrefix(kind, "text/") && !strings.HasPrefix(kind, "application/") {
		kind = "text/plain" // ".ts" is a video to some tables
	}
	embedded := client.Embedded(uri, kind, data)
	if len(embedded.GetResource().GetBlob()) > 0 {
		return linked, nil // no text, and so of no use in a message
	}
	return embedded, nil
}

func mediaType(path string) string {
	kind, _, _ := strings.Cut(mime.TypeByExtension(filepath.Ext(path)), ";")
	return kind
}
