package link

import (
	"io"
	"strings"
	"testing"
)

// sized returns a message of a number of bytes, without its line feed. text is a message with one "%".
func sized(text string, size int) string {
	return strings.Replace(text, "%", strings.Repeat("x", size-len(text)+1), 1)
}

func TestLink_PassesMessagesUpToLimit(t *testing.T) {
	const limit = 1 << 16
	notice := `{"jsonrpc":"2.0","method":"_x/y","params":{"text":"%"}}`
	request := `{"jsonrpc":"2.0","id":"r","method":"_x/y","params":{"text":"%"}}`
	for _, direction := range []string{"agent to client", "client to agent"} {
		t.Run(direction, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.Limits.MaxMessage = limit })
			r.open(`{}`)
			from, to := r.agent, r.client
			if direction == "client to agent" {
				from, to = r.client, r.agent
			}
			send := func(line string) {
				t.Helper()
				go func() { _, _ = io.WriteString(from.in, line+"\n") }()
			}
			for _, size := range []int{limit - 1, limit} {
				want := sized(notice, size)
				send(want)
				if got := to.next(); got != want {
					t.Errorf("a message of %d bytes: got %d bytes: %.100s", size, len(got), got)
				}
			}
			send(sized(request, limit+1))
			from.wantError(`"r"`, -32600, "more than the 65536")
			send(`{"jsonrpc":"2.0","method":"_x/after"}`)
			if got := to.next(); got != `{"jsonrpc":"2.0","method":"_x/after"}` {
				t.Errorf("after a message above the limit: got %.200s", got)
			}
		})
	}
}
