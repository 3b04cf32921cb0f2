package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestLinks_LeadToFiles(t *testing.T) {
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md"} {
		found, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: got %q and %v, want pages", pattern, found, err)
		}
		all = append(all, found...)
	}
	link := regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)]*))?\)`)
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	for _, page := range all {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			to := page
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to what is not there: %v", strings.TrimPrefix(page, top+"/"), err)
			} else if m[2] != "" && strings.HasSuffix(to, ".md") && !anchors(t, to)[m[2]] {
				t.Errorf("%s links to %s, which has no heading #%s", strings.TrimPrefix(page, top+"/"), strings.TrimPrefix(to, top+"/"), m[2])
			}
		}
	}
}

// anchors are the names by which links find a page's headings, as GitHub makes them.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	plain := regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(string(text), "")
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(plain, -1) {
		heading := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
		name := regexp.MustCompile(`[^\pL\pN\- _]`).ReplaceAllString(strings.ToLower(heading), "")
		all[strings.ReplaceAll(name, " ", "-")] = true
	}
	return all
}
