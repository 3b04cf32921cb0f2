package e2e

import (
	"strings"
)

// HandleOf is the handle of a question, which callers without the right to answer receive in place of the id.
func HandleOf(id string) string { return id[:max(0, strings.LastIndexByte(id, '.'))] }
