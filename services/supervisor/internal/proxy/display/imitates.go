package display

import (
	"bytes"
	"slices"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc/lex"
)

// MayImitate reports whether an update in a line may be one that Imitates is about: a cheap look, before that takes a close
// one.
func MayImitate(line []byte) bool {
	return bytes.Contains(line, []byte(idPrefix)) || bytes.Contains(line, []byte(`\u`)) // an escape may hide the former
}

// Imitates reports whether an update of the agent's says in its _meta what one of our terminals writes, or how it ended.
// That is ours to say: a client would show it as what the command wrote. Terminals of the agent's own, and those of another
// acphost that runs below this one, are not ours. A name that is there twice, or in another case, counts each time.
func (d *Display) Imitates(update []byte) bool {
	ids := terminalIDs(update)
	if len(ids) == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(ids, func(id string) bool { return d.terminals[id] != nil })
}

// terminalIDs are the strings called terminal_id below _meta, those of lists of that name too.
func terminalIDs(update []byte) (ids []string) {
	var n lex.Nesting
	var walk func(at int, id bool) int
	walk = func(at int, id bool) int {
		switch lex.At(update, at) {
		case '{':
			return lex.Object(update, at, func(name []byte, at int) int {
				return walk(at, bytes.EqualFold(name, []byte("terminal_id")))
			})
		case '[':
			return lex.Array(update, at, func(at int) int { return walk(at, id) })
		}
		end := n.ValueEnd(update, at, 0)
		if id && end > 0 {
			if s, ok := acp.String(update[at:end]); ok {
				ids = append(ids, s)
			}
		}
		return end
	}
	lex.Object(update, lex.SkipSpace(update, 0), func(name []byte, at int) int {
		if bytes.EqualFold(name, []byte("_meta")) {
			return walk(at, false)
		}
		return n.ValueEnd(update, at, 0)
	})
	return ids
}
