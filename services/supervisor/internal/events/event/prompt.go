package event

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// AppendPrompt appends blocks in ACP's form: the JSON array that is the prompt of a session/prompt, on one line. For a
// block without a required member, of a type that is not of ACP v1, or with text that is not UTF-8, it returns a
// fault.Error of class Invalid that names the block; b must not be used then.
func AppendPrompt(b []byte, blocks []*supervisorv1.ContentBlock) ([]byte, error) {
	w := writer{b: append(b, '[')}
	for i, c := range blocks {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.block(c)
		if w.err != nil {
			return nil, fault.New(fault.Invalid, "prompt: block %d: %w", i+1, w.err)
		}
	}
	return append(w.b, ']'), nil
}

// writer writes JSON objects; err is the first error.
type writer struct {
	b   []byte
	err error
}

func (w *writer) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// name begins a member.
func (w *writer) name(name string) {
	if c := w.b[len(w.b)-1]; c != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
}

// text writes a member with a string.
func (w *writer) text(name, s string) {
	if !utf8.ValidString(s) {
		w.fail("%s: it is not UTF-8", name)
		return
	}
	w.name(name)
	w.b = jsonrpc.AppendString(w.b, s)
}

// optional writes a member with a string, if it is not empty.
func (w *writer) optional(name, s string) {
	if s != "" {
		w.text(name, s)
	}
}

// required writes a member whose string must not be empty.
func (w *writer) required(name, s string) {
	if s == "" {
		w.fail("%s is missing", name)
		return
	}
	w.text(name, s)
}

func (w *writer) bytes(name string, data []byte) {
	w.name(name)
	w.b = append(w.b, '"')
	w.b = base64.StdEncoding.AppendEncode(w.b, data)
	w.b = append(w.b, '"')
}

func (w *writer) block(c *supervisorv1.ContentBlock) {
	w.b = append(w.b, '{')
	switch v := c.GetContent().(type) {
	case *supervisorv1.ContentBlock_Text:
		w.text("type", "text")
		w.text("text", v.Text.GetText())
	case *supervisorv1.ContentBlock_Image:
		if len(v.Image.GetData()) == 0 && v.Image.GetUri() == "" {
			w.fail("an image needs data or a uri")
		}
		w.text("type", "image")
		w.bytes("data", v.Image.GetData())
		w.required("mimeType", v.Image.GetMimeType())
		w.optional("uri", v.Image.GetUri())
	case *supervisorv1.ContentBlock_Audio:
		if len(v.Audio.GetData()) == 0 {
			w.fail("a sound needs data")
		}
		w.text("type", "audio")
		w.bytes("data", v.Audio.GetData())
		w.required("mimeType", v.Audio.GetMimeType())
	case *supervisorv1.ContentBlock_ResourceLink:
		w.link(v.ResourceLink)
	case *supervisorv1.ContentBlock_Resource:
		w.text("type", "resource")
		w.name("resource")
		w.resource(v.Resource)
	case *supervisorv1.ContentBlock_Other:
		w.fail("it is of a type that ACP v1 does not have: send text, image, audio, resource_link or resource")
	default:
		w.fail("it is empty: it needs one of text, image, audio, resource_link and resource")
	}
	if c.GetAnnotations() != nil {
		w.name("annotations")
		w.annotations(c.GetAnnotations())
	}
	w.meta(c.GetMeta())
	w.b = append(w.b, '}')
}

func (w *writer) link(l *supervisorv1.ResourceLink) {
	w.text("type", "resource_link")
	w.required("uri", l.GetUri())
	w.required("name", l.GetName())
	w.optional("title", l.GetTitle())
	w.optional("description", l.GetDescription())
	w.optional("mimeType", l.GetMimeType())
	if l != nil && l.Size != nil {
		w.name("size")
		w.b = strconv.AppendInt(w.b, l.GetSize(), 10)
	}
}

func (w *writer) resource(r *supervisorv1.EmbeddedResource) {
	w.b = append(w.b, '{')
	w.required("uri", r.GetUri())
	w.optional("mimeType", r.GetMimeType())
	switch v := r.GetContents().(type) {
	case *supervisorv1.EmbeddedResource_Text:
		w.text("text", v.Text)
	case *supervisorv1.EmbeddedResource_Blob:
		w.bytes("blob", v.Blob)
	default:
		w.fail("the resource is empty: it needs text or blob")
	}
	w.b = append(w.b, '}')
}

func (w *writer) annotations(a *supervisorv1.Annotations) {
	w.b = append(w.b, '{')
	if len(a.GetAudience()) > 0 {
		w.name("audience")
		for i, role := range a.GetAudience() {
			if !utf8.ValidString(role) {
				w.fail("audience: it is not UTF-8")
				return
			}
			w.b = append(w.b, "[,"[min(i, 1)])
			w.b = jsonrpc.AppendString(w.b, role)
		}
		w.b = append(w.b, ']')
	}
	w.optional("lastModified", a.GetLastModified())
	if a.Priority != nil {
		if p := a.GetPriority(); math.IsNaN(p) || math.IsInf(p, 0) {
			w.fail("priority: %v is no number of JSON's", p)
			return
		}
		w.name("priority")
		w.b = strconv.AppendFloat(w.b, a.GetPriority(), 'g', -1, 64)
	}
	w.b = append(w.b, '}')
}

// meta writes a member from raw JSON, without line breaks, which would end the message.
func (w *writer) meta(s string) {
	if s == "" {
		return
	}
	v, err := Meta(s)
	if err != nil {
		w.fail("meta: it is not a JSON object: %v", err)
		return
	}
	w.name("_meta")
	w.b = append(w.b, v...)
}

// Missing returns a fault.Error of class Unsupported with an AgentError of kind NOT_SUPPORTED if a prompt needs
// something that the agent does not advertise; nil otherwise. All agents support text and references.
func Missing(caps *supervisorv1.AgentCapabilities, blocks []*supervisorv1.ContentBlock) error {
	for i, c := range blocks {
		var what, capability string
		switch c.GetContent().(type) {
		case *supervisorv1.ContentBlock_Image:
			if !caps.GetPromptImage() {
				what, capability = "images", "image"
			}
		case *supervisorv1.ContentBlock_Audio:
			if !caps.GetPromptAudio() {
				what, capability = "sounds", "audio"
			}
		case *supervisorv1.ContentBlock_Resource:
			if !caps.GetPromptEmbeddedContext() {
				what, capability = "embedded resources", "embeddedContext"
			}
		}
		if what == "" {
			continue
		}
		e := fault.New(fault.Unsupported, "prompt: block %d: the agent takes no %s (promptCapabilities.%s): leave it out%s",
			i+1, what, capability, instead(c))
		e.Agent = &supervisorv1.AgentError{Kind: supervisorv1.ErrorKind_ERROR_KIND_NOT_SUPPORTED, Message: e.Message}
		return e
	}
	return nil
}

// instead returns advice about an alternative for a block, if there is one.
func instead(c *supervisorv1.ContentBlock) string {
	if c.GetResource().GetUri() != "" {
		return ", or send a resource_link"
	}
	return ""
}

// largeResource is the size of an embedded resource from which a person is warned, in bytes.
const largeResource = 1 << 20

// Large returns a warning for each embedded resource of over 1 MiB: it fills a context quickly, and the agent could
// read the file itself. The warnings are acphost's own, have the current time, and have no agent and no session yet.
func Large(blocks []*supervisorv1.ContentBlock) []*supervisorv1.Event {
	var out []*supervisorv1.Event
	for _, c := range blocks {
		r := c.GetResource()
		size := len(r.GetText()) + len(r.GetBlob())
		if size <= largeResource {
			continue
		}
		out = append(out, &supervisorv1.Event{
			Time: timestamppb.New(time.Now()),
			Event: &supervisorv1.Event_Notice{Notice: &supervisorv1.Notice{
				Severity: "warning",
				Title:    "A large resource is part of the prompt",
				Description: fmt.Sprintf("%s has %.1f MiB, all of which go into the agent's context: a resource_link lets the agent read what it needs",
					safetext.Cut(r.GetUri(), maxKept), float64(size)/(1<<20)),
				FromAcphost: true,
			}},
		})
	}
	return out
}
