package main

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// How much of files is sent, in bytes. A file over maxFile is linked instead; all of a prompt goes in one message.
const (
	maxFile     = 1 << 20
	maxImage    = 5 << 20
	maxAttached = 10 << 20
)

// attachment is a file that goes with a prompt.
type attachment struct {
	path  string // absolute
	data  []byte // not all of it if it is large
	mime  string
	size  int64
	image bool
}

// readAttachments reads what --file and --image name.
func readAttachments(files, images []string) ([]*attachment, error) {
	var list []*attachment
	total := 0
	for i, name := range append(append([]string(nil), files...), images...) {
		flag, most := "--file", maxFile
		if i >= len(files) {
			flag, most = "--image", maxImage
		}
		at, err := readAttachment(name, most)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		if at.image = flag == "--image"; at.image {
			switch {
			case at.size > maxImage:
				return nil, fmt.Errorf("--image: %s has over %d MiB: make it smaller", name, maxImage>>20)
			case !strings.HasPrefix(at.mime, "image/"):
				return nil, fmt.Errorf("--image: %s is no image that is known (%s); --file gives it as a file", name, at.mime)
			}
		}
		if total += len(at.data); total > maxAttached {
			return nil, fmt.Errorf("%s: with %s, the files have over %d MiB in all: leave some out, or name them in the text", flag, name, maxAttached>>20)
		}
		list = append(list, at)
	}
	return list, nil
}

func readAttachment(name string, most int) (*attachment, error) {
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
	at := &attachment{path: path, data: data, mime: mediaType(data), size: info.Size()}
	if len(data) > most {
		at.data, at.size = nil, max(at.size, int64(len(data)))
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

// promptBlocks are the blocks of a prompt, as far as an agent takes them, and what a person should know about them.
func promptBlocks(text string, attachments []*attachment, can *supervisorv1.AgentCapabilities) (blocks []*supervisorv1.ContentBlock, notes []string, err error) {
	blocks = append(blocks, &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: text}}})
	for _, at := range attachments {
		uri := (&url.URL{Scheme: "file", Path: filepath.ToSlash(at.path)}).String()
		switch {
		case at.image && !can.GetPromptImage():
			return nil, nil, errors.New("the agent does not take images: leave --image out, or name the file in the text")
		case at.image:
			blocks = append(blocks, &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Image{Image: &supervisorv1.ImageContent{
				Data: at.data, MimeType: at.mime, Uri: uri,
			}}})
		case at.data == nil || !can.GetPromptEmbeddedContext():
			why := "the agent takes no embedded files"
			if at.data == nil && can.GetPromptEmbeddedContext() {
				why = fmt.Sprintf("it has over %d MiB", maxFile>>20)
			}
			notes = append(notes, fmt.Sprintf("%s is given as a link, since %s: the agent has to read it itself", at.path, why))
			size := at.size
			blocks = append(blocks, &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_ResourceLink{ResourceLink: &supervisorv1.ResourceLink{
				Uri: uri, Name: filepath.Base(at.path), MimeType: at.mime, Size: &size,
			}}})
		default:
			resource := &supervisorv1.EmbeddedResource{Uri: uri, MimeType: at.mime}
			if utf8.Valid(at.data) && !strings.ContainsRune(string(at.data), 0) {
				resource.Contents = &supervisorv1.EmbeddedResource_Text{Text: string(at.data)}
			} else {
				resource.Contents = &supervisorv1.EmbeddedResource_Blob{Blob: at.data}
			}
			blocks = append(blocks, &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Resource{Resource: resource}})
		}
	}
	return blocks, notes, nil
}
