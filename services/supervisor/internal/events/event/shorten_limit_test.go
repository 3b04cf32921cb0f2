package event

import (
	"bytes"
	"testing"

	"github.com/acphost/acphost/internal/limits"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

func TestShorten_KeepsMessagesUpToLimit(t *testing.T) {
	head, tail := []byte(`{"method":"session/update","params":{"sessionId":"s","text":"`), []byte("\"}}\n")
	for _, size := range []int{limits.Whole - 1, limits.Whole, limits.Whole + 1} {
		line := append(append(append(make([]byte, 0, size), head...), bytes.Repeat([]byte("x"), size-len(head)-len(tail))...), tail...)
		f := &frame.Frame{Line: line}
		Shorten(f)
		switch {
		case size <= limits.Whole && (f.Omitted != 0 || len(f.Line) != size):
			t.Errorf("%d bytes: %d are left, and %d are omitted", size, len(f.Line), f.Omitted)
		case size > limits.Whole && (f.Omitted != size || string(f.Line) != `{"method":"session/update","params":{"sessionId":"s","text":""}}`+"\n"):
			t.Errorf("%d bytes: got %.200s, and %d are omitted", size, f.Line, f.Omitted)
		}
	}
}
