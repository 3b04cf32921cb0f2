package terminal

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"
)

// IDPrefix is the prefix of every terminal id. It shows an editor the origin of a stale id.
const IDPrefix = "acphost-"

// idMint makes ids that it can recognise without storing them: half of an id is random, the other half authenticates
// the random part and the scope. So releasing an id again is no error even after a long time, and memory does not grow
// with the number of terminals.
type idMint struct{ key [32]byte }

func newMint() *idMint {
	m := &idMint{}
	_, _ = rand.Read(m.key[:]) // never fails
	return m
}

func (m *idMint) id(scope string) string {
	var raw [16]byte
	_, _ = rand.Read(raw[:8])
	copy(raw[8:], m.mac(scope, raw[:8]))
	return IDPrefix + hex.EncodeToString(raw[:])
}

// issued reports whether id was made for the scope.
func (m *idMint) issued(scope, id string) bool {
	digits, ok := strings.CutPrefix(id, IDPrefix)
	raw, err := hex.DecodeString(digits)
	return ok && err == nil && len(raw) == 16 && digits == strings.ToLower(digits) &&
		subtle.ConstantTimeCompare(raw[8:], m.mac(scope, raw[:8])) == 1
}

func (m *idMint) mac(scope string, nonce []byte) []byte {
	h := hmac.New(sha256.New, m.key[:])
	h.Write(nonce)
	h.Write([]byte(scope))
	return h.Sum(nil)[:8]
}
