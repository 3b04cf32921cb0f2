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
	"github.com/acphost/acphost/services/supervisor/internal/acp/fileref"
)

// Limits of attachments. A larger file becomes a link, which the agent may read.
const (
	maxAttached = 32
	// maxReferences limits the references to files in one message.
	maxReferences = 10_000
	maxEmbedded   = 256 << 10 // text files
	maxImage      = 5 << 20
)

// blocks returns the content blocks of a message: the text as typed, then the files that it mentions. References to
// other things remain text.
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

// attached returns the first of some names that is an existing file.
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

// attachment returns a file's content if the agent supports it and it is not too large, else a link.
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
		kind = "text/plain" // some tables list ".ts" as a video
	}
	embedded := client.Embedded(uri, kind, data)
	if len(embedded.GetResource().GetBlob()) > 0 {
		return linked, nil // binary, so the content is useless in a message
	}
	return embedded, nil
}

func mediaType(path string) string {
	kind, _, _ := strings.Cut(mime.TypeByExtension(filepath.Ext(path)), ";")
	return kind
}
