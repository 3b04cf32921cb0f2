package jsonrpc

import (
	"fmt"
	"strings"
)

// DroppedNote says which line of a peer was dropped first because it is no message, as the end of an error, "; …". first is how
// that line begins; empty: no line was dropped, and so is the note.
func DroppedNote(first string) string {
	switch strings.TrimSpace(first) {
	case "":
		return ""
	case "{", "[":
		return fmt.Sprintf("; the first line that was dropped is %q: the agent writes its JSON over several lines, and each message must be one line",
			strings.TrimSpace(first))
	}
	return fmt.Sprintf("; the first line that was dropped, because it is no JSON-RPC message, is %q: each message must be one line of JSON", first)
}
