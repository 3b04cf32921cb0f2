package e2e

import (
	"strings"
)

// HandleOf is what a question is called for those who may not answer.
func HandleOf(id string) string { return id[:max(0, strings.LastIndexByte(id, '.'))] }
