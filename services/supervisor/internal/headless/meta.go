package headless

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/fault"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxMeta bounds the _meta that a caller gives, in bytes.
	maxMeta = 256 << 10
	// maxMetaDepth bounds how deep it nests. Options are shallow, and there are agents whose parsers give up on a message
	// at 128 levels, without a word to whoever waits for the answer.
	maxMetaDepth = 100
)

// newMeta checks a _meta and makes it fit for a line: no white space between its parts, and no character that some peers
// take for the end of a line. All else stays as it is spelled. No text is no _meta. What is the attempt that it belongs to.
func newMeta(what, text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxMeta {
		return nil, fault.New(fault.Invalid, "%s: meta has %d bytes, more than the %d that are taken", what, len(text), maxMeta)
	}
	if err := checkMeta(text); err != nil {
		return nil, fault.New(fault.Invalid, "%s: meta is not one JSON object: %w", what, err)
	}
	meta := jsontext.Value(text)
	if err := meta.Compact(); err != nil {
		return nil, fault.New(fault.Invalid, "%s: meta is not one JSON object: %w", what, err)
	}
	out := bytes.ReplaceAll(meta, []byte("\u2028"), []byte(`\u2028`))
	return bytes.ReplaceAll(out, []byte("\u2029"), []byte(`\u2029`)), nil
}

// checkMeta reads all of a text, in which names must not occur twice, however they are spelled: peers differ about which
// of them counts.
func checkMeta(text string) error {
	d := jsontext.NewDecoder(strings.NewReader(text))
	if d.PeekKind() != '{' {
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		return errors.New("it is another value")
	}
	for {
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		switch depth := d.StackDepth(); {
		case depth > maxMetaDepth:
			return errors.New("it nests too deep")
		case depth == 0:
			if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
				return errors.New("something comes after it")
			}
			return nil
		}
	}
}

// appendMeta appends the member, with a comma before it; nil is none.
func appendMeta(b, meta []byte) []byte {
	if meta == nil {
		return b
	}
	return append(append(b, `,"_meta":`...), meta...)
}
