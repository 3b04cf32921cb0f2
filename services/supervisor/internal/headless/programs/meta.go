package programs

import (
	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

// maxMeta limits the _meta of a request, in bytes.
const maxMeta = 256 << 10

// newMeta validates a _meta and formats it on one line. An empty text is no _meta. what begins the error.
func newMeta(what, text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxMeta {
		return nil, fault.New(fault.Invalid, "%s: meta has %d bytes, more than the %d that are taken", what, len(text), maxMeta)
	}
	meta, err := event.Meta(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s: meta is not one JSON object: %w", what, err)
	}
	return meta, nil
}

// appendMeta appends the member _meta with a leading comma, unless it is nil.
func appendMeta(b, meta []byte) []byte {
	if meta == nil {
		return b
	}
	return append(append(b, `,"_meta":`...), meta...)
}
