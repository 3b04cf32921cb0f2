package prompt

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/hosting"
)

// Limits of files in bytes. A file over maxFile is sent as a link. A whole prompt is one message.
const (
	maxFile     = 1 << 20
	maxImage    = 5 << 20
	maxAttached = 10 << 20
)

// attachment is a file of a prompt.
type attachment struct {
	*hosting.File
	image bool
}

// readAttachments reads the files of --file and --image.
func readAttachments(files, images []string) ([]*attachment, error) {
	var list []*attachment
	total := 0
	for i, name := range append(append([]string(nil), files...), images...) {
		flag, limit := "--file", maxFile
		if i >= len(files) {
			flag, limit = "--image", maxImage
		}
		file, err := hosting.ReadFile(name, limit)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		at := &attachment{File: file, image: flag == "--image"}
		if at.image {
			switch {
			case at.Size > maxImage:
				return nil, fmt.Errorf("--image: %s has over %d MiB: make it smaller", name, maxImage>>20)
			case !strings.HasPrefix(at.MIME, "image/"):
				return nil, fmt.Errorf("--image: %s is no image that is known (%s); --file gives it as a file", name, at.MIME)
			}
		}
		if total += len(at.Data); total > maxAttached {
			return nil, fmt.Errorf("%s: with %s, the files have over %d MiB in all: leave some out, or name them in the text", flag, name, maxAttached>>20)
		}
		list = append(list, at)
	}
	return list, nil
}

// promptBlocks returns the blocks of a prompt that an agent supports, and notes for the user.
func promptBlocks(text string, attachments []*attachment, can *supervisorv1.AgentCapabilities) (blocks []*supervisorv1.ContentBlock, notes []string, err error) {
	blocks = append(blocks, client.Text(text))
	for _, at := range attachments {
		uri := (&url.URL{Scheme: "file", Path: filepath.ToSlash(at.Path)}).String()
		switch {
		case at.image && !can.GetPromptImage():
			return nil, nil, errors.New("the agent does not take images: leave --image out, or name the file in the text")
		case at.image:
			blocks = append(blocks, client.Image(uri, at.MIME, at.Data))
		case at.Data == nil || !can.GetPromptEmbeddedContext():
			why := "the agent takes no embedded files"
			if at.Data == nil && can.GetPromptEmbeddedContext() {
				why = fmt.Sprintf("it has over %d MiB", maxFile>>20)
			}
			notes = append(notes, fmt.Sprintf("%s is given as a link, since %s: the agent has to read it itself", at.Path, why))
			size := at.Size
			blocks = append(blocks, client.Link(&supervisorv1.ResourceLink{Uri: uri, Name: filepath.Base(at.Path), MimeType: at.MIME, Size: &size}))
		default:
			blocks = append(blocks, client.Embedded(uri, at.MIME, at.Data))
		}
	}
	return blocks, notes, nil
}
