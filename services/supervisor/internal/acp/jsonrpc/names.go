package jsonrpc

import (
	"fmt"
	"unicode/utf8"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// name is a member of the envelope.
type name uint8

const (
	nameOther name = iota
	nameVersion
	nameID
	nameMethod
	nameParams
	nameResult
	nameError
	nameCount
)

func (n name) String() string {
	return [nameCount]string{"", "jsonrpc", "id", "method", "params", "result", "error"}[n]
}

// envelopeName returns the member of the envelope that a key names. exact reports whether the key has the right case;
// it may be escaped.
func envelopeName(key []byte, escaped bool) (n name, exact bool) {
	if escaped {
		key, _ = lex.AppendUnescaped(nil, key)
	}
	switch string(key) {
	case "jsonrpc":
		return nameVersion, true
	case "id":
		return nameID, true
	case "method":
		return nameMethod, true
	case "params":
		return nameParams, true
	case "result":
		return nameResult, true
	case "error":
		return nameError, true
	}
	for n := nameVersion; n < nameCount; n++ {
		if foldsTo(key, n.String()) {
			return n, false
		}
	}
	return nameOther, false
}

// param is a member of params that is stored.
type param uint8

const (
	paramOther param = iota
	paramSession
	paramUpdate
)

// paramName returns the member of params that a key names. exact reports whether the key has the right case.
func paramName(key []byte, escaped bool) (n param, exact bool) {
	if !escaped {
		switch string(key) {
		case "sessionId":
			return paramSession, true
		case "update":
			return paramUpdate, true
		}
		if len(key) < len("update") {
			return paramOther, false
		}
	}
	if folded, exact := matches(key, escaped, "sessionId"); folded {
		return paramSession, exact
	}
	if folded, exact := matches(key, escaped, "update"); folded {
		return paramUpdate, exact
	}
	return paramOther, false
}

// matches reports whether a key equals an ASCII name under case folding, and whether it equals it exactly.
func matches(key []byte, escaped bool, name string) (folded, exact bool) {
	if escaped {
		key, _ = lex.AppendUnescaped(nil, key)
	}
	if string(key) == name {
		return true, true
	}
	return foldsTo(key, name), false
}

// foldsTo reports whether key equals the ASCII name under Unicode's simple case folding. Two characters outside of
// ASCII fold into it: U+017F to s and U+212A to k.
func foldsTo(key []byte, name string) bool {
	if len(key) < len(name) || len(key) > 3*len(name) {
		return false
	}
	i := 0
	for j := range len(name) {
		if i >= len(key) {
			return false
		}
		c := key[i]
		switch {
		case c < utf8.RuneSelf:
			i++
		case c == 0xc5 && lex.At(key, i+1) == 0xbf:
			c = 's'
			i += 2
		case c == 0xe2 && lex.At(key, i+1) == 0x84 && lex.At(key, i+2) == 0xaa:
			c = 'k'
			i += 3
		default:
			return false
		}
		if lower(c) != lower(name[j]) {
			return false
		}
	}
	return i == len(key)
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// DuplicateNames returns an error if the object params, which must be valid JSON, is ambiguous at its top level: a name
// occurs twice, or differs from a known name only in case (see AppendFolded). The error is an *Error with
// CodeInvalidRequest that names the member. A value that is not an object is valid.
func DuplicateNames(params []byte, known ...string) error {
	i := lex.SkipSpace(params, 0)
	if lex.At(params, i) != '{' {
		return nil
	}
	folded := make(map[string]string, len(known))
	var scratch []byte
	for _, k := range known {
		scratch = lex.AppendFolded(scratch[:0], []byte(k))
		folded[string(scratch)] = k
	}
	var nesting lex.Nesting
	var d lex.Duplicates
	var err error
	d.Object(params, i, func(key []byte, at int) int {
		if d.Found {
			err = &Error{Code: CodeInvalidRequest, Message: fmt.Sprintf("ambiguous params: the name %.40q occurs twice", key)}
			return lex.Stop
		}
		scratch = lex.AppendFolded(scratch[:0], key)
		if k, ok := folded[string(scratch)]; ok && k != string(key) {
			err = &Error{
				Code:    CodeInvalidRequest,
				Message: fmt.Sprintf("ambiguous params: the name %.40q differs from %q only in case", key, k),
			}
			return lex.Stop
		}
		return nesting.ValueEnd(params, at, 1)
	})
	return err
}
