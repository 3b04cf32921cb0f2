package event

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxApprovalID is the limit of the agent's part of a question's id, in bytes; the rest of a longer one is replaced
	// by a digest.
	maxApprovalID = 64
	digestBytes   = 12
)

// approvalID returns the handle of a question in a supervisor, which does not permit answering it: the agent's id, a
// slash, and the id of the question's JSON-RPC request in the form of jsonrpc.CanonicalID. Equal ids have equal
// handles, and different ids different ones. The agent's part is short and printable ASCII: a string has no quotes if
// it cannot be mistaken for a number, for null or for a digest.
func approvalID(agentID, key string) string {
	shown := key
	if s, ok := strings.CutPrefix(key, `"`); ok {
		if shown = s; !standsAlone(s) {
			shown = asciiQuoted(s)
		}
	}
	if len(shown) > maxApprovalID {
		sum := sha256.Sum256([]byte(key))
		shown = shown[:maxApprovalID-2*digestBytes-1] + "~" + hex.EncodeToString(sum[:digestBytes])
	}
	return agentID + "/" + shown
}

// ApprovalIDs assigns ids to the questions of one agent. Agents may reuse a JSON-RPC id, and do so after a restart: the
// number of the use is then appended, so that an answer to one question never applies to the next. The zero value is
// ready. Not safe for concurrent use.
type ApprovalIDs struct{ uses map[string]int }

// maxUses is the limit of ids whose uses are counted.
const maxUses = 1 << 16

// Next returns the id of a new question, and the number of its use, from 1 on.
func (a *ApprovalIDs) Next(agentID string, id []byte) (approvalID string, use int) {
	return a.next(agentID, jsonrpc.CanonicalID(id))
}

func (a *ApprovalIDs) next(agentID, key string) (string, int) {
	full := approvalID(agentID, key)
	if a.uses == nil {
		a.uses = map[string]int{}
	}
	use := a.uses[full] + 1
	if use > 1 || len(a.uses) < maxUses {
		a.uses[full] = use
	}
	if use > 1 {
		full = fmt.Sprintf("%s~%d", full, use)
	}
	return full, use
}

// AnswerID returns the id with which a question is answered: its public handle from ApprovalIDs, a dot, and 128 random
// bits, which only callers get that may answer.
func AnswerID(handle string) string { return handle + "." + jsonrpc.NewID() }

// Handle returns the handle in an id of AnswerID; the result for a handle is the handle.
func Handle(id string) string { return client.Handle(id) }

// standsAlone reports whether a string needs no quotes.
func standsAlone(s string) bool {
	if s == "" || s == "null" {
		return false
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '~' {
			return false
		}
	}
	v := jsontext.Value(s)
	return v.Kind() != '0' || !v.IsValid()
}

// asciiQuoted returns a string in quotes, with everything except printable ASCII escaped. A long string is cut, and
// gets a digest.
func asciiQuoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for len(s) > 0 && b.Len() <= maxApprovalID {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r >= ' ' && r < 0x7f && r != '~':
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
		s = s[n:]
	}
	b.WriteByte('"')
	return b.String()
}
