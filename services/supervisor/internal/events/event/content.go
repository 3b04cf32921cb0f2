package event

import (
	"encoding/base64"
	"slices"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// noLimit disables the limit of content.
const noLimit = int(^uint(0) >> 1)

// block decodes a content block. A block that is not of ACP v1 is kept as raw JSON. For a block of more than limit
// bytes, only its metadata is decoded.
func block(v []byte, limit int) *supervisorv1.ContentBlock {
	var kind, annotations, meta []byte
	var m contentMembers
	if read(v, "type", &kind, "annotations", &annotations, "_meta", &meta,
		"text", &m.text, "data", &m.data, "mimeType", &m.mimeType, "uri", &m.uri, "name", &m.name,
		"title", &m.title, "description", &m.description, "size", &m.size, "resource", &m.resource) < 0 {
		return otherBlock(v)
	}
	m.drop = len(v) > limit
	b := &supervisorv1.ContentBlock{}
	if m.into(b, kind); b.Content == nil {
		return otherBlock(v)
	}
	if annotations != nil {
		b.Annotations = annotationsOf(annotations)
	}
	b.Meta = rawObject(meta)
	return b
}

func otherBlock(v []byte) *supervisorv1.ContentBlock {
	if v == nil {
		v = []byte("null")
	}
	return &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Other{Other: raw(v)}}
}

// contentMembers are the raw members of a content block of any type.
type contentMembers struct {
	text, data, mimeType, uri, name, title, description, size, resource []byte

	drop bool // omit the content
}

// into sets b's content. It stays unset if a member is missing, or if the type is not of ACP v1.
func (m *contentMembers) into(b *supervisorv1.ContentBlock, kind []byte) {
	mimeType, typed := acp.String(m.mimeType)
	uri, placed := acp.String(m.uri)
	switch string(kind) {
	case `"text"`:
		if s, ok := m.content(m.text); ok {
			b.Content = &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: s}}
		}
	case `"image"`:
		if data, ok := m.decoded(m.data); ok && typed {
			b.Content = &supervisorv1.ContentBlock_Image{Image: &supervisorv1.ImageContent{Data: data, MimeType: mimeType, Uri: uri}}
		}
	case `"audio"`:
		if data, ok := m.decoded(m.data); ok && typed {
			b.Content = &supervisorv1.ContentBlock_Audio{Audio: &supervisorv1.AudioContent{Data: data, MimeType: mimeType}}
		}
	case `"resource_link"`, `"resourceLink"`:
		name, named := acp.String(m.name)
		if !placed || !named {
			return
		}
		link := &supervisorv1.ResourceLink{Uri: uri, Name: name, Title: textOf(m.title), Description: textOf(m.description), MimeType: mimeType}
		if n, ok := acp.Int(m.size, 64); ok {
			link.Size = &n
		}
		b.Content = &supervisorv1.ContentBlock_ResourceLink{ResourceLink: link}
	case `"resource"`:
		if r := m.embedded(); r != nil {
			b.Content = &supervisorv1.ContentBlock_Resource{Resource: r}
		}
	}
}

// embedded decodes an embedded resource; nil: a member is missing.
func (m *contentMembers) embedded() *supervisorv1.EmbeddedResource {
	var uri, mimeType, txt, blob []byte
	read(m.resource, "uri", &uri, "mimeType", &mimeType, "text", &txt, "blob", &blob)
	at, placed := acp.String(uri)
	r := &supervisorv1.EmbeddedResource{Uri: at, MimeType: textOf(mimeType)}
	if s, ok := m.content(txt); ok {
		r.Contents = &supervisorv1.EmbeddedResource_Text{Text: s}
	} else if data, ok := m.decoded(blob); ok {
		r.Contents = &supervisorv1.EmbeddedResource_Blob{Blob: data}
	}
	return where(placed && r.Contents != nil, r)
}

// content returns a string with content.
func (m *contentMembers) content(v []byte) (string, bool) {
	if m.drop && len(v) > 0 && v[0] == '"' {
		return "", true
	}
	return acp.String(v)
}

// decoded decodes base64. Padding may be missing.
func (m *contentMembers) decoded(v []byte) ([]byte, bool) {
	if m.drop && len(v) > 0 && v[0] == '"' {
		return nil, true
	}
	s, ok := acp.String(v)
	if !ok {
		return nil, false
	}
	data, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		data, err = base64.RawStdEncoding.DecodeString(s)
	}
	return slices.Clip(data), err == nil
}

func annotationsOf(v []byte) *supervisorv1.Annotations {
	if !isObject(v) {
		return nil
	}
	a := &supervisorv1.Annotations{}
	read(v, "audience", func(v []byte) { a.Audience = texts(v) }, "lastModified", &a.LastModified, "priority", func(v []byte) {
		a.Priority = nil
		if n, ok := acp.Number(v); ok {
			a.Priority = &n
		}
	})
	return a
}

// blocks decodes an array of content blocks.
func blocks(v []byte, limit int) []*supervisorv1.ContentBlock {
	return listOf(v, func(v []byte) *supervisorv1.ContentBlock { return block(v, limit) })
}
