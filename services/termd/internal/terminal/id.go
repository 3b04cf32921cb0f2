package terminal

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"
)

// IDPrefix is how every terminal id begins. An editor that is shown a stale one can tell whose it was.
const IDPrefix = "acphost-"

// mint makes ids that can be recognised for ever without being remembered: half is random, half says that we made it for
// this scope. So releasing an id again is no error however long ago it was, and nothing grows with the number of terminals.
type mint struct{ key [32]byte }

func newMint() *mint {
	m := &mint{}
	_, _ = rand.Read(m.key[:]) // never fails
	return m
}

func (m *mint) id(scope string) string {
	var raw [16]byte
	_, _ = rand.Read(raw[:8])
	copy(raw[8:], m.seal(scope, raw[:8]))
	return IDPrefix + hex.EncodeToString(raw[:])
}

// made reports whether id was made for the scope.
func (m *mint) made(scope, id string) bool {
	digits, ok := strings.CutPrefix(id, IDPrefix)
	raw, err := hex.DecodeString(digits)
	return ok && err == nil && len(raw) == 16 && digits == strings.ToLower(digits) &&
		subtle.ConstantTimeCompare(raw[8:], m.seal(scope, raw[:8])) == 1
}

func (m *mint) seal(scope string, nonce []byte) []byte {
	h := hmac.New(sha256.New, m.key[:])
	h.Write(nonce)
	h.Write([]byte(scope))
	return h.Sum(nil)[:8]
}
