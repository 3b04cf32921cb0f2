package render

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"google.golang.org/protobuf/proto"
)

func TestMarkdown_HostileTextIsFast(t *testing.T) {
	for _, piece := range []string{
		"*a ", "**a", "`a``", "[a](", "[", "~~a", "> ", "| a ", "_a_", "***", "a\\", "- ", "\u65e5", "``` x\n", "|-|\n", "*a **b ", "`", "* ", "| a\n|-\n",
		"\u0301", "word ", "a\tb\r",
	} {
		text := strings.Repeat(piece, (32<<10)/len(piece))
		for _, size := range []int{len(text), 200} {
			testkit.TakesAtMost(t, 10*time.Second, fmt.Sprintf("32 KiB of %q in pieces of %d", piece, size), func() {
				m := newMarkdown(Options{Width: 80, Color: true})
				for rest := text; rest != ""; {
					part, _ := safetext.Prefix(rest, size)
					rest = rest[len(part):]
					m.add(part)
				}
				m.end()
			})
		}
	}
}

func TestDiff_HostileDiffIsFast(t *testing.T) {
	var old, text strings.Builder
	for i := range 60000 {
		fmt.Fprintf(&old, "%d\n", i*7%60013)
		fmt.Fprintf(&text, "%d\n", i*11%60013)
	}
	testkit.TakesAtMost(t, 10*time.Second, "the diff", func() {
		Diff(Options{}, &supervisorv1.Diff{Path: "/a", OldText: proto.String(old.String()), NewText: text.String()})
	})
}

func TestQuestion_HostileInputIsFast(t *testing.T) {
	old, text := strings.Repeat("a\n", 50<<10), strings.Repeat("b\n", 50<<10)
	for _, member := range []string{`"diff":"+b",`, `"content":"x",`, `"a":"/b",`, `"path":"/b",`, `"oldstring":"a",`, `"cwd":"/x",`, `"a":[[]],`} {
		asked := &supervisorv1.Approval{Permission: &supervisorv1.PermissionQuestion{
			Title:    strings.Repeat("/b", 30<<10),
			RawInput: `{"command":"x",` + strings.Repeat(member, (60<<10)/len(member)) + `"end":1}`,
			Content: []*supervisorv1.ToolCallContent{{Item: &supervisorv1.ToolCallContent_Diff{
				Diff: &supervisorv1.Diff{Path: "/a", OldText: &old, NewText: text},
			}}},
		}}
		testkit.TakesAtMost(t, 10*time.Second, fmt.Sprintf("an input of %q", member), func() {
			if shown := Question(Options{}, asked); len(shown) > 4<<10 {
				t.Errorf("of an input of %q, %d bytes are shown", member, len(shown))
			}
		})
	}
}
