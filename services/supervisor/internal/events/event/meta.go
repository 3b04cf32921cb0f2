package event

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxMetaDepth is the limit of a caller's _meta nesting. Options are shallow, and the parsers of some agents fail on a
// message with 128 levels, without an answer.
const MaxMetaDepth = 100

// Meta validates a _meta that a caller provides as text, one JSON object without duplicate names, and formats it for a
// line: no white space between its parts, and no characters that some peers read as the end of a line. It keeps the
// spelling of everything else.
func Meta(text string) ([]byte, error) {
	if err := checkMeta(text); err != nil {
		return nil, err
	}
	meta := jsontext.Value(text)
	if err := meta.Compact(); err != nil {
		return nil, err
	}
	out := bytes.ReplaceAll(meta, []byte("\u2028"), []byte(`\u2028`))
	return bytes.ReplaceAll(out, []byte("\u2029"), []byte(`\u2029`)), nil
}

// checkMeta reads all of a text. Equal names must not occur twice in any spelling, because peers differ about which one
// they use.
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
		case depth > MaxMetaDepth:
			return errors.New("it nests too deep")
		case depth == 0:
			if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
				return errors.New("something comes after it")
			}
			return nil
		}
	}
}
