package client

import (
	"bytes"
	"unicode/utf8"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Text is a text as a block of a prompt. Every agent takes text and links; what else it takes, its capabilities say.
func Text(text string) *supervisorv1.ContentBlock {
	return &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: text}}}
}

// Link is a block that names what the agent may read itself, such as a file by its URI.
func Link(link *supervisorv1.ResourceLink) *supervisorv1.ContentBlock {
	return &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_ResourceLink{ResourceLink: link}}
}

// Image is an image as a block, for agents with prompt_image. uri says where it is from.
func Image(uri, mimeType string, data []byte) *supervisorv1.ContentBlock {
	return &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Image{Image: &supervisorv1.ImageContent{Uri: uri, MimeType: mimeType, Data: data}}}
}

// Embedded is the content of a file as a block, for agents with prompt_embedded_context: text where it is UTF-8 without a
// NUL, else bytes. uri says where it is from.
func Embedded(uri, mimeType string, data []byte) *supervisorv1.ContentBlock {
	resource := &supervisorv1.EmbeddedResource{Uri: uri, MimeType: mimeType}
	if utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 {
		resource.Contents = &supervisorv1.EmbeddedResource_Text{Text: string(data)}
	} else {
		resource.Contents = &supervisorv1.EmbeddedResource_Blob{Blob: data}
	}
	return &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Resource{Resource: resource}}
}
