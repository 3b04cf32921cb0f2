package render

import (
	"strings"
	"testing"
	"time"
)

func TestTextThatIsMadeToBeSlowIsNot(t *testing.T) {
	for _, piece := range []string{"*a ", "**a", "`a``", "[a](", "[", "~~a", "> ", "| a ", "_a_", "***", "a\\", "- ", "\u65e5", "``` x\n", "|-|\n", "*a **b "} {
		text := strings.Repeat(piece, 64<<10/len(piece))
		start := time.Now()
		m := newMarkdown(Options{Width: 80, Color: true})
		for rest := text; rest != ""; {
			var part string
			part, _ = prefix(rest, 200)
			rest = rest[len(part):]
			m.add(part)
		}
		m.end()
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("64 KiB of %q take %v", piece, d)
		}
	}
}
