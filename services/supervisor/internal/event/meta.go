package event

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxMetaDepth bounds how deep a caller's _meta nests. Options are shallow, and there are agents whose parsers give up on a
// message at 128 levels, without a word to whoever waits for the answer.
const MaxMetaDepth = 100

// Meta checks a _meta that a caller gives as text, one JSON object without the same name twice, and makes it fit for a
// line: no white space between its parts, and no character that some peers take for the end of a line. All else stays as
// it is spelled.
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
