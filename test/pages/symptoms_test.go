package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSymptoms_QuoteMessagesOfPrograms: the page quotes error messages exactly as the programs print them, so that a
// search finds them.
func TestSymptoms_QuoteMessagesOfPrograms(t *testing.T) {
	var texts strings.Builder
	for _, folder := range []string{"services", "sdk", "internal"} {
		err := filepath.WalkDir(filepath.Join(top, folder), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			source, err := os.ReadFile(file)
			for line := range strings.Lines(string(source)) {
				if code, _, _ := strings.Cut(line, "// "); strings.ContainsAny(code, "\"`") {
					texts.WriteString(code)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(filepath.Join(top, "docs", "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	quoted := 0
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]*) \|`).FindAllStringSubmatch(string(page), -1) {
		for _, m := range regexp.MustCompile(`"([^"]*)"`).FindAllStringSubmatch(row[1], -1) {
			quoted++
			words := regexp.MustCompile(`\d+`).ReplaceAllString(m[1], "%d")
			for part := range strings.SplitSeq(words, "…") {
				if part = strings.TrimSpace(part); !strings.Contains(texts.String(), part) {
					t.Errorf("docs/troubleshooting.md quotes %q: no program prints %q", m[1], part)
				}
			}
		}
	}
	if quoted < 8 {
		t.Errorf("%d messages are quoted, want 8 or more", quoted)
	}
}
