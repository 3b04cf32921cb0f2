package prompt

import (
	"bytes"
	"context"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// maxRest limits the bytes of an incomplete line of the agent. It exceeds the limit of safetext.Line.
const maxRest = 8 << 10

// agentStderr prints the lines of the agent's standard error: escaped, and with the agent's name, to distinguish them
// from acphost's own. It ignores lines after the turn.
type agentStderr struct {
	p    *promptRun
	ctx  context.Context
	rest []byte // the incomplete line
}

// Write implements io.Writer.
func (w *agentStderr) Write(written []byte) (int, error) {
	whole := append(w.rest, written...)
	end := bytes.LastIndexByte(whole, '\n') + 1
	text, rest := string(whole[:end]), whole[end:]
	w.rest = bytes.Clone(rest[:min(len(rest), maxRest)])
	if text != "" && !w.p.post(w.ctx, func() { w.p.agentWrote(text) }) {
		return 0, w.ctx.Err()
	}
	return len(written), nil
}

// agentWrote prints lines of the agent's standard error.
func (p *promptRun) agentWrote(text string) {
	for line := range strings.Lines(text) {
		if line = safetext.Line(line); line != "" {
			p.printLine("agent: " + line)
		}
	}
}
