package prompt

import (
	"bytes"
	"context"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// maxRest bounds what is kept of a line of the agent's that has not ended, in bytes: more than safetext.Line shows.
const maxRest = 8 << 10

// agentWords takes what the agent writes to its standard error, and has each line printed: made safe, and named as the
// agent's, since nothing else tells it from acphost's own. It takes nothing once the turn is over.
type agentWords struct {
	p    *promptRun
	ctx  context.Context
	rest []byte // of a line that has not ended
}

// Write implements io.Writer.
func (w *agentWords) Write(written []byte) (int, error) {
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
			p.tell("agent: " + line)
		}
	}
}
