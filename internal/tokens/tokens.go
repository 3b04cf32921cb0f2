// Package tokens provides the tokens with which clients authenticate to a gateway. A token is 32 random bytes; a file
// has the SHA-256 of each, with its role and expiry, and never the token itself. (A slow hash would add nothing: 256
// random bits cannot be guessed.)
//
// The package makes and checks tokens and reads the file. It must not know the rights of a role, nor how a request
// carries a token.
package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/regular"
)

const (
	// prefix marks a token, so that people and secret scanners recognize it.
	prefix = "acphost_"
	// secretBytes is the number of random bytes of a token.
	secretBytes = 32
	// maxFile is the limit of the file, in bytes.
	maxFile = 4 << 20
	// FileName is the name of the file in the user's state folder.
	FileName = "tokens.json"
)

// Roles returns the possible roles of a token in ascending order.
func Roles() []string { return []string{"viewer", "approver", "operator"} }

// Token is the record of a token in the file.
type Token struct {
	// ID identifies the token to people: 12 hexadecimal digits, which are not part of the token.
	ID string `json:"id"`
	// Name is the name that its creator chose. May be empty.
	Name string `json:"name,omitempty"`
	// Role is one of Roles.
	Role string `json:"role"`
	// Hash is the SHA-256 of the token as text, in hexadecimal.
	Hash string `json:"sha256"`
	// Created and Expires limit its validity.
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// New makes a token. secret is the token itself, which is not stored.
func New(name, role string, now time.Time, lifetime time.Duration) (t Token, secret string, err error) {
	if !slices.Contains(Roles(), role) {
		return Token{}, "", fmt.Errorf("%q is no role of a token; there are %s", role, strings.Join(Roles(), ", "))
	}
	random := make([]byte, secretBytes+6)
	_, _ = rand.Read(random) // it never fails
	secret = prefix + base64.RawURLEncoding.EncodeToString(random[:secretBytes])
	hash := sha256.Sum256([]byte(secret))
	now = now.UTC().Truncate(time.Second)
	return Token{
		ID: hex.EncodeToString(random[secretBytes:]), Name: name, Role: role, Hash: hex.EncodeToString(hash[:]), Created: now, Expires: now.Add(lifetime),
	}, secret, nil
}

// Set is a list of tokens, as in a file.
type Set []Token

// Find returns the token that a caller presents, if it is in the set and has not expired at the time now. Its duration
// does not depend on how much of the presented text is correct.
func (s Set) Find(presented string, now time.Time) (Token, bool) {
	hash := sha256.Sum256([]byte(presented))
	at := -1
	for i := range s {
		want, err := hex.DecodeString(s[i].Hash)
		if err == nil && subtle.ConstantTimeCompare(hash[:], want) == 1 {
			at = i
		}
	}
	if at < 0 || !now.Before(s[at].Expires) || !slices.Contains(Roles(), s[at].Role) {
		return Token{}, false
	}
	return s[at], true
}

// file is the JSON form of the file.
type file struct {
	Tokens Set `json:"tokens"`
}

// Encode returns the content of the file for a set.
func Encode(s Set) ([]byte, error) {
	b, err := json.MarshalIndent(file{Tokens: append(Set{}, s...)}, "", "  ")
	return append(b, '\n'), err
}

// Read reads a file. It rejects a file that another user owns or can write, because the writer could add tokens. The
// error wraps fs.ErrNotExist if the file is missing.
func Read(name string) (Set, error) {
	// A user who can write to the folder can replace the file.
	if info, err := os.Stat(filepath.Dir(name)); err == nil && info.Mode()&fs.ModeSticky == 0 {
		if err := private(info); err != nil {
			return nil, fmt.Errorf("read the tokens in %s: the folder %w", name, err)
		}
	}
	b, err := regular.ReadIf(name, maxFile, private)
	if err != nil {
		return nil, fmt.Errorf("read the tokens: %w", err)
	}
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("read the tokens in %s: %w", name, err)
	}
	for _, t := range f.Tokens {
		if hash, err := hex.DecodeString(t.Hash); err != nil || len(hash) != sha256.Size {
			return nil, fmt.Errorf("read the tokens in %s: token %q has no SHA-256", name, t.ID)
		}
	}
	return f.Tokens, nil
}

var errWritable = errors.New("others can write it: look at the tokens, and chmod go-w")

// private returns an error if other users can write a file.
func private(info fs.FileInfo) error {
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s: %w", info.Name(), errWritable)
	}
	return owned(info)
}
