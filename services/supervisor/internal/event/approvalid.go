package event

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxApprovalID is how many bytes an agent may add to a question's id; of a longer one the rest is a digest.
	maxApprovalID = 64
	digestBytes   = 12
)

// approvalID is the handle of a question in a supervisor, by which nobody can answer it: the agent's id, a slash, and the id
// of the question's JSON-RPC request, which is given as jsonrpc.CanonicalID has it. Ids that mean the same give the same,
// others never do. What an agent adds is short and printable ASCII: a string stands without its quotes where it cannot be
// taken for a number, for null or for a digest.
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

// ApprovalIDs gives the questions of one agent their ids. Agents may use an id of JSON-RPC again, and do once they were
// started anew: such a question gets the number of its use behind its id, so that an answer to one is never an answer to
// the next. The zero value is ready. Not safe for concurrent use.
type ApprovalIDs struct{ uses map[string]int }

// maxUses bounds the ids whose uses are counted.
const maxUses = 1 << 16

// Next is the id of a question that is asked now, and the number of its use, from 1 on.
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

// AnswerID is the id by which a question is answered: its handle, which is ApprovalID's and can be known to everybody, and
// behind a dot 128 random bits, which are told to those who may answer.
func AnswerID(handle string) string { return handle + "." + jsonrpc.NewID() }

// Handle is the handle of a question that has an id by AnswerID; a handle is its own.
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

// asciiQuoted is a string in quotes, with everything escaped that is not printable ASCII. A long one is cut: its digest
// tells it from others.
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
