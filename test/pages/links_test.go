package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestLinksOfThePagesLeadToFiles(t *testing.T) {
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md"} {
		found, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: got %q and %v, want pages", pattern, found, err)
		}
		all = append(all, found...)
	}
	link := regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	for _, page := range all {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to what is not there: %v", strings.TrimPrefix(page, top+"/"), err)
			}
		}
	}
}
