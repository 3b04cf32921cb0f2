package policy

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/invisible"
)

func TestShow_EscapesInvisibleCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"a\u3164b": `a\u3164b`, "a\u2800b": `a\u2800b`, "a\u202eb": `a\u202eb`, "a\ufe0fb": `a\ufe0fb`, "a\U000e0100b": `a\U000e0100b`,
		"a\nb": `a\nb`, "a'b": "a'b", "é": "é",
	} {
		if got := show(text); got != want || invisible.In(got) {
			t.Errorf("show(%+q) is %+q, want %+q", text, got, want)
		}
	}
}

func TestLoad_RejectsInvisibleNames(t *testing.T) {
	for _, r := range []string{"\u3164", "\u2800", "\u202e"} {
		_, err := Parse("rules.yaml", []byte("version: 1\nrules: [{id: \"a"+r+"\", effect: deny}]"), Surroundings{})
		if err == nil || !strings.Contains(err.Error(), "printable characters") {
			t.Errorf("an id with %+q: %v", r, err)
		}
	}
}
