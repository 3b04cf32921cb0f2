// Package acp has the messages of the Agent Client Protocol that the data path needs: initialize, the session/* requests,
// session/update with its tool calls, and session/request_permission.
//
// It reads them leniently, as the protocol's schema asks: an optional member of a wrong type counts as absent. It edits JSON
// in place, so that every member that it does not change keeps its bytes. It must not know routes or handlers.
package acp

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc/lex"
)

// The methods that the path handles itself.
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

	// Not in ACP; some agents and clients have them.
	MethodListDirectory  = "fs/list_directory"
	MethodTerminalRun    = "terminal/run"
	MethodSessionEndTurn = "session/end_turn" // a notification: the turn is over
	MethodAuthComplete   = "auth_complete"    // a notification: so is the login
)

// Members calls f with the name and the raw value of each member of a JSON object, in the order they stand, until f
// returns false. The values alias obj. It is an error if obj is no JSON object, or not JSON at all. Names that occur twice
// in one object, at any depth, are an error too, since peers differ about which of them counts; Members returns it after
// it has called f with all members.
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

// Elements calls f with each raw element of a JSON array until f returns false. The values alias arr. Its errors are as
// those of Members.
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

// readError is the error of a walk over b that ended at end.
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

// Get returns the raw value at a path of object members, nil where there is none. It aliases obj. Of duplicate names
// the last counts.
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

// member returns where the last member of obj with that name has its value, how many members obj has, and the index after
// obj. to is 0 if there is none; end is negative if obj is no JSON object.
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

// Set returns obj, a JSON object, with the value at path set, objects on the way made where they are missing. All other
// bytes stay as they are. obj itself is not changed.
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

// String returns the string that a raw JSON value is, and whether it is one. Bytes that are not UTF-8, and halves of
// surrogate pairs, become U+FFFD: an agent that cuts its text in the middle of a character has not said less. It is for
// text that is shown or recorded, and for words of the protocol; see Exact.
func String(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	s, _ := lex.Text(raw)
	return s, true
}

// Exact is String for what a decision is made on, such as paths and commands: a string with bytes that are not UTF-8, or
// with half of a surrogate pair, counts as none, since programs differ about the bytes that it becomes.
func Exact(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if s, exact := lex.Text(raw); exact {
		return s, true
	}
	return "", false
}

// Strings returns the strings of a raw JSON array, and whether it is an array of strings alone, each of them as Exact.
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

// Number returns the number that a raw JSON value is, and whether it is one that a float64 holds.
func Number(raw []byte) (float64, bool) {
	if c := lex.At(raw, 0); c != '-' && (c < '0' || c > '9') {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	return n, err == nil && !math.IsInf(n, 0)
}

// Int returns the integer that a raw JSON value is, and whether it is one of at most bits bits, however it is spelled.
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
