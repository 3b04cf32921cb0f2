// Package acp provides the messages of the Agent Client Protocol that the data path needs: initialize, the session/*
// requests, session/update with its tool calls, and session/request_permission.
//
// It parses them leniently, as the protocol's schema requires: an optional member of a wrong type counts as missing. It
// edits JSON in place, so that every unchanged member keeps its bytes. It must not know routes or handlers.
package acp

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// The methods that the data path handles itself.
const (
	MethodInitialize        = "initialize"
	MethodAuthenticate      = "authenticate"
	MethodSessionNew        = "session/new"
	MethodSessionLoad       = "session/load"
	MethodSessionResume     = "session/resume"
	MethodSessionFork       = "session/fork"
	MethodSessionClose      = "session/close"
	MethodSessionDelete     = "session/delete"
	MethodSessionPrompt     = "session/prompt"
	MethodSessionCancel     = "session/cancel"
	MethodSessionSetMode    = "session/set_mode"
	MethodSessionSetModel   = "session/set_model"
	MethodSessionSetOption  = "session/set_config_option"
	MethodSessionUpdate     = "session/update"
	MethodRequestPermission = "session/request_permission"
	MethodElicitationCreate = "elicitation/create"
	MethodCancelRequest     = "$/cancel_request"
	MethodReadTextFile      = "fs/read_text_file"
	MethodWriteTextFile     = "fs/write_text_file"
	MethodTerminalCreate    = "terminal/create"
	MethodTerminalOutput    = "terminal/output"
	MethodTerminalWait      = "terminal/wait_for_exit"
	MethodTerminalKill      = "terminal/kill"
	MethodTerminalRelease   = "terminal/release"

	// These methods are not part of ACP. Some agents and clients have them.
	MethodListDirectory  = "fs/list_directory"
	MethodTerminalRun    = "terminal/run"
	MethodSessionEndTurn = "session/end_turn" // a notification: the turn has ended
	MethodAuthComplete   = "auth_complete"    // a notification: the login is complete
)

// Members calls f with the name and the raw value of each member of a JSON object, in their order, until f returns
// false. The values alias obj. Members returns an error if obj is not a JSON object. Duplicate names in one object, at
// any depth, are an error too, because parsers differ about which one counts. Members returns that error after it has
// called f with all members.
func Members(obj []byte, f func(name string, value []byte) bool) error {
	var d lex.Duplicates
	end := d.Object(obj, lex.SkipSpace(obj, 0), func(name []byte, at int) int {
		end := d.ValueEnd(obj, at, 1)
		if end > 0 && !f(strings.ToValidUTF8(string(name), "\uFFFD"), obj[at:end:end]) {
			return lex.Stop
		}
		return end
	})
	return readError(obj, end, &d, "object")
}

// Elements calls f with each raw element of a JSON array until f returns false. The values alias arr. It returns the
// same errors as Members.
func Elements(arr []byte, f func(value []byte) bool) error {
	var d lex.Duplicates
	end := lex.Array(arr, lex.SkipSpace(arr, 0), func(at int) int {
		end := d.ValueEnd(arr, at, 1)
		if end > 0 && !f(arr[at:end:end]) {
			return lex.Stop
		}
		return end
	})
	return readError(arr, end, &d, "array")
}

// readError returns the error for a scan of b that ended at end.
func readError(b []byte, end int, d *lex.Duplicates, what string) error {
	switch {
	case end == lex.Stop || end >= 0:
		if !d.Found {
			return nil
		}
		return fmt.Errorf("read a JSON %s: the name %.40q occurs twice", what, d.Name)
	case end == lex.TooDeep:
		return fmt.Errorf("read a JSON %s: nested deeper than %d", what, lex.MaxDepth)
	case ^end >= len(b):
		return fmt.Errorf("read a JSON %s: it ends early, after %d bytes", what, len(b))
	}
	return fmt.Errorf("read a JSON %s: unexpected %q at byte %d", what, b[^end:^end+1], ^end+1)
}

// Get returns the raw value at a path of object members, or nil if there is none. It aliases obj. The last one of
// duplicate names counts.
func Get(obj []byte, path ...string) []byte {
	for _, name := range path {
		from, to, _, end := member(obj, name)
		if end < 0 || to == 0 {
			return nil
		}
		obj = obj[from:to:to]
	}
	return obj
}

// member returns the position of the value of the last member of obj with that name, the number of members of obj, and
// the index after obj. to is 0 if there is no such member. end is negative if obj is not a JSON object.
func member(obj []byte, want string) (from, to, members, end int) {
	var n lex.Nesting
	end = lex.Object(obj, lex.SkipSpace(obj, 0), func(name []byte, at int) int {
		members++
		end := n.ValueEnd(obj, at, 1)
		if string(name) == want {
			from, to = at, end
		}
		return end
	})
	return from, to, members, end
}

// Set returns obj, a JSON object, with the value at path replaced. It creates missing objects on the path. All other
// bytes are unchanged. obj itself is not modified.
func Set(obj []byte, value []byte, path ...string) ([]byte, error) {
	if len(path) == 0 {
		return value, nil
	}
	start, end, members, after := member(obj, path[0])
	if after < 0 {
		return nil, readError(obj, after, nil, "object")
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
	ins = append(append(jsonrpc.AppendString(ins, path[0]), ':'), sub...)
	return splice(obj, after-1, after-1, ins), nil
}

func splice(b []byte, start, end int, with []byte) []byte {
	out := make([]byte, 0, len(b)-(end-start)+len(with))
	out = append(out, b[:start]...)
	out = append(out, with...)
	return append(out, b[end:]...)
}

// String decodes a raw JSON string, and returns false for another value. Invalid UTF-8 and halves of surrogate pairs
// become U+FFFD, because agents may cut a text in the middle of a character. Use it for texts that are displayed or
// recorded, and for constants of the protocol; see Exact.
func String(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	s, _ := lex.Text(raw)
	return s, true
}

// Exact decodes a string that a decision depends on, such as a path or a command. It returns false for invalid UTF-8
// and for half of a surrogate pair, because programs decode these differently.
func Exact(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if s, exact := lex.Text(raw); exact {
		return s, true
	}
	return "", false
}

// Strings decodes a raw JSON array of strings, each as Exact does. It returns false for any other value.
func Strings(raw []byte) ([]string, bool) {
	var out []string
	all := true
	if err := Elements(raw, func(v []byte) bool {
		s, ok := Exact(v)
		all = all && ok
		out = append(out, s)
		return all
	}); err != nil || !all {
		return nil, false
	}
	return out, true
}

// Number decodes a raw JSON number. It returns false if the value is no number or does not fit into a float64.
func Number(raw []byte) (float64, bool) {
	if c := lex.At(raw, 0); c != '-' && (c < '0' || c > '9') {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	return n, err == nil && !math.IsInf(n, 0)
}

// Int decodes a raw JSON integer in any notation. It returns false if the value is no integer, or does not fit into the
// given number of bits.
func Int(raw []byte, bits int) (int64, bool) {
	if n, err := strconv.ParseInt(string(raw), 10, bits); err == nil {
		return n, true
	}
	f, ok := Number(raw)
	limit := math.Ldexp(1, bits-1)
	if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 || f >= limit || f < -limit {
		return 0, false
	}
	return int64(f), true
}
