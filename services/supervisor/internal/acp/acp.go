// Package acp holds the messages of the Agent Client Protocol that the path between agent and front lives by:
// initialize, the session/* requests, session/update with its tool calls, and session/request_permission.
//
// It reads them leniently, as the protocol's schema asks for (an optional member of a wrong type counts as absent), and
// it edits JSON in place, so that whatever it has no business with keeps its bytes. It knows neither routes nor handlers.
package acp

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// The methods that the path handles itself.
const (
	MethodInitialize        = "initialize"
	MethodSessionNew        = "session/new"
	MethodSessionLoad       = "session/load"
	MethodSessionResume     = "session/resume"
	MethodSessionFork       = "session/fork"
	MethodSessionClose      = "session/close"
	MethodSessionDelete     = "session/delete"
	MethodSessionPrompt     = "session/prompt"
	MethodSessionCancel     = "session/cancel"
	MethodSessionSetMode    = "session/set_mode"
	MethodSessionSetOption  = "session/set_config_option"
	MethodSessionUpdate     = "session/update"
	MethodRequestPermission = "session/request_permission"
	MethodElicitationCreate = "elicitation/create"
	MethodCancelRequest     = "$/cancel_request"
)

var errStop = errors.New("stop")

// Members calls f with the name and the raw value of each member of a JSON object, in the order they stand, until f
// returns false. The values alias obj. It is an error if obj is no JSON object, or not JSON at all; duplicate names,
// at any depth, are an error too, since peers differ about which of them counts.
func Members(obj []byte, f func(name string, value []byte) bool) error {
	err := scanMembers(obj, false, func(name string, start, end int) error {
		if !f(name, obj[start:end:end]) {
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// scanMembers is Members with offsets, and with a choice about duplicate names.
func scanMembers(obj []byte, duplicates bool, f func(name string, start, end int) error) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(obj), jsontext.AllowDuplicateNames(duplicates), jsontext.AllowInvalidUTF8(true))
	tok, err := dec.ReadToken()
	if err != nil {
		return fmt.Errorf("read a JSON object: %w", err)
	}
	if tok.Kind() != '{' {
		return fmt.Errorf("read a JSON object: got %s", kindName(tok.Kind()))
	}
	for dec.PeekKind() != '}' {
		tok, err := dec.ReadToken()
		if err != nil {
			return fmt.Errorf("read a JSON object: %w", err)
		}
		name := tok.String()
		val, err := dec.ReadValue()
		if err != nil {
			return fmt.Errorf("read member %q: %w", name, err)
		}
		end := int(dec.InputOffset())
		if err := f(name, end-len(val), end); err != nil {
			return err
		}
	}
	return nil
}

// Elements calls f with each raw element of a JSON array until f returns false. The values alias arr.
func Elements(arr []byte, f func(value []byte) bool) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(arr), jsontext.AllowInvalidUTF8(true))
	tok, err := dec.ReadToken()
	if err != nil {
		return fmt.Errorf("read a JSON array: %w", err)
	}
	if tok.Kind() != '[' {
		return fmt.Errorf("read a JSON array: got %s", kindName(tok.Kind()))
	}
	for dec.PeekKind() != ']' {
		val, err := dec.ReadValue()
		if err != nil {
			return fmt.Errorf("read a JSON array: %w", err)
		}
		end := int(dec.InputOffset())
		if !f(arr[end-len(val) : end : end]) {
			return nil
		}
	}
	return nil
}

// Get returns the raw value at a path of object members, nil where there is none. It aliases obj. Of duplicate names
// the last counts.
func Get(obj []byte, path ...string) []byte {
	for _, name := range path {
		var found []byte
		if err := scanMembers(obj, true, func(n string, start, end int) error {
			if n == name {
				found = obj[start:end:end]
			}
			return nil
		}); err != nil {
			return nil
		}
		if found == nil {
			return nil
		}
		obj = found
	}
	return obj
}

// Set returns obj, a JSON object, with the value at path set, objects on the way made where they are missing. All other
// bytes stay as they are. obj itself is not changed.
func Set(obj []byte, value []byte, path ...string) ([]byte, error) {
	if len(path) == 0 {
		return value, nil
	}
	var start, end, members int
	if err := scanMembers(obj, true, func(n string, s, e int) error {
		members++
		if n == path[0] {
			start, end = s, e
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if end > 0 {
		child := obj[start:end]
		if len(path) > 1 && (len(child) == 0 || child[0] != '{') {
			child = []byte("{}")
		}
		sub, err := Set(child, value, path[1:]...)
		if err != nil {
			return nil, err
		}
		return splice(obj, start, end, sub), nil
	}
	sub, err := Set([]byte("{}"), value, path[1:]...)
	if err != nil {
		return nil, err
	}
	var ins []byte
	if members > 0 {
		ins = append(ins, ',')
	}
	ins, err = jsontext.AppendQuote(ins, path[0])
	if err != nil {
		return nil, fmt.Errorf("set member %q: %w", path[0], err)
	}
	ins = append(append(ins, ':'), sub...)
	at := bytes.LastIndexByte(obj, '}')
	return splice(obj, at, at, ins), nil
}

func splice(b []byte, start, end int, with []byte) []byte {
	out := make([]byte, 0, len(b)-(end-start)+len(with))
	out = append(out, b[:start]...)
	out = append(out, with...)
	return append(out, b[end:]...)
}

// String returns the string that a raw JSON value is, and whether it is one.
func String(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	out, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return "", false
	}
	return string(out), true
}

// Strings returns the strings of a raw JSON array, and whether it is an array of strings alone.
func Strings(raw []byte) ([]string, bool) {
	var out []string
	all := true
	if err := Elements(raw, func(v []byte) bool {
		s, ok := String(v)
		all = all && ok
		out = append(out, s)
		return all
	}); err != nil || !all {
		return nil, false
	}
	return out, true
}

// Quote returns s as a JSON string.
func Quote(s string) []byte {
	out, err := jsontext.AppendQuote(nil, s)
	if err != nil { // not UTF-8: the quoted form has U+FFFD in place of what is not
		return out
	}
	return out
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 'f', 't':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "an array"
	default:
		return "an object"
	}
}
