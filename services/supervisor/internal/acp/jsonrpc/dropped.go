package jsonrpc

import (
	"fmt"
	"strings"
)

// DroppedNote returns the end of an error message, "; …", that quotes the first line of a peer that was discarded
// because it is not a message. first is the beginning of that line. If first is empty, DroppedNote returns "".
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
