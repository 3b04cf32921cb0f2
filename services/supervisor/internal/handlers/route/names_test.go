package route

import (
	"strings"
	"testing"
)

// A name that looks like one of ACP's and that no agent calls would leave unprotected what it was to protect.
func TestCheckName_RejectsNamesLikeACP(t *testing.T) {
	for name, meant := range map[string]string{
		"terminal": "terminal/*", "terminal/": "terminal/*", "terminals/*": "terminal/*", "Terminal/*": "terminal/*", "fs": "fs/*",
		"fs/read": "fs/read_text_file", "terminal/Create": "terminal/create", "terminals/create": "terminal/create", "terminal below /srv": "terminal/*",
	} {
		if err := CheckName(name); err == nil || !strings.Contains(err.Error(), `did you mean "`+meant+`"`) {
			t.Errorf("%s: %v, want that it names %s", name, err, meant)
		}
	}
	for _, name := range []string{"fs/*", "terminal/*", "fs/read_text_file", "terminal/create", "terminal/* below /srv", "_example.com/echo", "fs/watch", "_x/*"} {
		if err := CheckName(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
