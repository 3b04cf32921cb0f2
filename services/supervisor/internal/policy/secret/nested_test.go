package secret

import (
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"

	"github.com/acphost/acphost/internal/shell"
)

// Each line in a line was searched for each of those around it: thirty of them took minutes to record.
func TestText_NestedLinesAreFast(t *testing.T) {
	const depth = 150
	for name, around := range map[string]string{
		"substitutions":                "$(curl --token hunter2hunter2 ",
		"substitutions with more":      "a$(curl --token hunter2hunter2 ",
		"substitutions between quotes": `"$(curl --token hunter2hunter2 `,
	} {
		t.Run(name, func(t *testing.T) {
			behind := ")"
			if strings.HasPrefix(around, `"`) {
				behind = `)"`
			}
			line := "echo " + strings.Repeat(around, depth) + "x" + strings.Repeat(behind, depth)
			c := &permissionv1.Command{Text: line}
			c.SubCommands, _ = shell.Parse(line)
			if len(c.GetSubCommands()) < depth {
				t.Fatalf("the line has %d commands", len(c.GetSubCommands()))
			}
			Command(c)
			texts := []string{c.GetText()}
			for _, sub := range c.GetSubCommands() {
				texts = append(texts, sub.GetArgv()...)
			}
			for _, text := range texts {
				if strings.Contains(text, "hunter2") {
					t.Fatalf("it shows the secret: %.200s", text)
				}
			}
		})
	}
}

func TestText_SearchesBetweenSubstitutions(t *testing.T) {
	const line = `sh -c "$(which curl) --token hunter2hunter2 $(hostname)"`
	if got := Text(line); strings.Contains(got, "hunter2") {
		t.Errorf("it shows the secret: %s", got)
	}
}
