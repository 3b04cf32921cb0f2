package peer

import (
	"strings"
	"testing"
)

func TestSupervises_CommandLines(t *testing.T) {
	for line, want := range map[string]bool{
		"acphost run -- agent":                      true,
		"/usr/bin/acphost serve":                    true,
		"acphost chat --agent claude":               true,
		"acphost chat":                              true,
		"acphost chat -- agent --attach":            true,
		"acphost chat --cwd --attach -- agent":      true, // a folder of that name
		"acphost chat --attached x":                 true,
		"acphost prompt --attach x":                 true,
		"acphost chat --attach 4f1c":                false,
		"acphost chat --attach=4f1c --history none": false,
		"acphost ps":                                false,
		"acphost":                                   false,
		"other chat --agent claude":                 false,
	} {
		if got := supervises(strings.Fields(line)); got != want {
			t.Errorf("%s: %t, want %t", line, got, want)
		}
	}
}
