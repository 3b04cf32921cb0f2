package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/go-json-experiment/json/jsontext"
)

// maxID is how many bytes the part of an id that an agent chooses may have; of a longer one the rest is a digest.
const maxID = 64

// ID is the id of an agent's question in a supervisor: the agent's id, a slash, and the JSON-RPC id that the question has,
// which is raw JSON. Two JSON-RPC ids have one ID if they mean the same, and only then. It is printable ASCII, and short,
// whatever an agent chooses: a string is shown without its quotes where it cannot be taken for something else.
func ID(agentID string, raw []byte) string {
	key := jsonrpc.CanonicalID(raw)
	shown := key
	if text, isString := strings.CutPrefix(key, `"`); isString {
		shown = text
		if !plain(text) {
			shown = quoted(text)
		}
	}
	if len(shown) > maxID {
		sum := sha256.Sum256([]byte(key))
		shown = shown[:maxID-25] + "~" + hex.EncodeToString(sum[:12])
	}
	return agentID + "/" + shown
}

// plain tells whether a string can stand without quotes: it looks like no number, no null and nothing that is shortened.
func plain(text string) bool {
	if text == "" || text == "null" {
		return false
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '~' {
			return false
		}
	}
	v := jsontext.Value(text)
	return v.Kind() != '0' || !v.IsValid()
}

// quoted is a string in quotes, with all escaped that is not printable ASCII.
func quoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r >= ' ' && r < 0x7f && r != '~':
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
		text = text[n:]
		if b.Len() > maxID { // the rest is a digest
			break
		}
	}
	b.WriteByte('"')
	return b.String()
}
