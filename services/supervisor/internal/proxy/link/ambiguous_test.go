package link

import (
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

// shown records the frames that it is shown.
type shown chan frame.Frame

func (s shown) Frame(f frame.Frame) { s <- f }

func TestObserve_AmbiguousLineHasNoFields(t *testing.T) {
	seen := make(shown, 16)
	r := newRig(t, func(o *Options) { o.Observe, o.Observer = true, seen })
	const line = `{"id":1,"method":"x","method":"session/new","params":{}}`
	r.client.send(line)
	if got := r.agent.next(); got != line {
		t.Fatalf("the agent got %s", got)
	}
	r.agent.send(line)
	if got := r.client.next(); got != line {
		t.Fatalf("the client got %s", got)
	}
	for range 2 {
		if f := <-seen; f.Scanned || f.Method != nil || f.ID != nil {
			t.Errorf("a frame of direction %v counts as %q", f.Direction, f.Method)
		}
	}
}
