// Package pages checks that the names in the documentation exist. It only reads files: it needs no binaries.
package pages

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	top      = "../.."
	packages = "services/supervisor/internal/"
)

var (
	// named is a file that a page names, with the functions in it, if it names some: `link/link.go` (`Run`, `end`).
	named = regexp.MustCompile("`([\\w./-]+\\.go)`(?:\\s\\((`\\w+`(?:,\\s+`\\w+`)*)\\))?")
	// counted is the number of files and packages that a path of a message uses, as the page states it.
	counted = regexp.MustCompile(`This path uses (\d+) files in (\d+) packages`)
)

// read returns the text of a page below docs.
func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// locate returns the path, from the top of the repository, of a file that a page names; "" if none exists.
func locate(name string) string {
	for _, file := range []string{name, packages + name} {
		if info, err := os.Stat(filepath.Join(top, file)); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return ""
}

func TestDeveloperPages_NamesExist(t *testing.T) {
	for _, page := range []string{"questions.md", "message-paths.md"} {
		all := named.FindAllStringSubmatch(read(t, page), -1)
		if len(all) == 0 {
			t.Errorf("docs/%s names no file", page)
		}
		for _, m := range all {
			file := locate(m[1])
			if file == "" {
				t.Errorf("docs/%s names %s: there is no such file, at the top or in %s", page, m[1], packages)
				continue
			}
			source, err := os.ReadFile(filepath.Join(top, file))
			if err != nil {
				t.Fatal(err)
			}
			for _, quoted := range regexp.MustCompile(`\w+`).FindAllString(m[2], -1) {
				if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + quoted + `\b`).Match(source) {
					t.Errorf("docs/%s names the function %s in %s: it is not there", page, quoted, file)
				}
			}
		}
	}
}

func TestMessagePaths_CountFilesAndPackages(t *testing.T) {
	paths := strings.Split(read(t, "message-paths.md"), "\n## ")[1:]
	if len(paths) != 4 {
		t.Errorf("got %d paths, want 4", len(paths))
	}
	for _, section := range paths {
		title, steps, _ := strings.Cut(section, "\n")
		files, dirs := map[string]bool{}, map[string]bool{}
		for _, m := range named.FindAllStringSubmatch(steps, -1) {
			file := locate(m[1])
			files[file], dirs[path.Dir(file)] = true, true
		}
		want := fmt.Sprintf("This path uses %d files in %d packages", len(files), len(dirs))
		if got := counted.FindString(steps); got != want {
			t.Errorf("%s: got %q, want %q", title, got, want)
		}
	}
}

func TestQuestions_TableOfEnds(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(top, packages, "question/end.go"))
	if err != nil {
		t.Fatal(err)
	}
	page := read(t, "questions.md")
	causes := regexp.MustCompile(`(?m)^\t\w+: +\{"`).FindAll(source, -1)
	rows := strings.Count(page, "\n| ") - 1 // the head
	if len(causes) == 0 || rows != len(causes) {
		t.Errorf("got %d rows, want one for each of the %d causes in question/end.go", rows, len(causes))
	}
}
