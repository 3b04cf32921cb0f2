package client

import (
	"bytes"
	"unicode/utf8"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Text returns a text block for a prompt. Every agent accepts text and links; its capabilities list the other accepted
// types.
func Text(text string) *supervisorv1.ContentBlock {
	return &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: text}}}
}

// Link returns a block that names a resource that the agent may read by itself, such as a file by its URI.
func Link(link *supervisorv1.ResourceLink) *supervisorv1.ContentBlock {
	return &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_ResourceLink{ResourceLink: link}}
}

// Image returns an image block, for agents with the capability prompt_image. uri is the origin of the image.
func Image(uri, mimeType string, data []byte) *supervisorv1.ContentBlock {
	return &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Image{Image: &supervisorv1.ImageContent{Uri: uri, MimeType: mimeType, Data: data}}}
}

// Embedded returns the content of a file as a block, for agents with the capability prompt_embedded_context: as text if
// it is UTF-8 without a NUL, else as bytes. uri is the origin of the content.
func Embedded(uri, mimeType string, data []byte) *supervisorv1.ContentBlock {
	resource := &supervisorv1.EmbeddedResource{Uri: uri, MimeType: mimeType}
	if utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 {
		resource.Contents = &supervisorv1.EmbeddedResource_Text{Text: string(data)}
	} else {
		resource.Contents = &supervisorv1.EmbeddedResource_Blob{Blob: data}
	}
	return &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Resource{Resource: resource}}
}
