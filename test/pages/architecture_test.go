// Package pages checks that the documentation names what is there. It reads files alone: it needs no binaries.
package pages

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	top          = "../.."
	architecture = top + "/docs/architecture.md"
	packages     = "services/supervisor/internal/"
)

var (
	// named is a file that the page names, with the functions in it, if it names some: `link/link.go` (`Run`, `end`).
	named = regexp.MustCompile("`([\\w./-]+\\.go)`(?: \\((`\\w+`(?:, `\\w+`)*)\\))?")
	// counted is how many files and packages a walk says that it touches.
	counted = regexp.MustCompile(`This walk touches (\d+) files in (\d+) packages`)
	// described is a row of the table of packages.
	described = regexp.MustCompile("(?m)^\\| `([\\w/]+)` \\|")
)

// section returns what stands below a heading of the page.
func section(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	_, part, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/architecture.md has no heading %q", heading)
	}
	part, _, _ = strings.Cut(part, "\n## ")
	return part
}

// locate returns the path, from the top of the repository, of a file that the page names; "" if there is none.
func locate(name string) string {
	for _, file := range []string{name, packages + name} {
		if info, err := os.Stat(filepath.Join(top, file)); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return ""
}

func TestArchitecture_NamesExist(t *testing.T) {
	text, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	all := named.FindAllStringSubmatch(string(text), -1)
	if len(all) == 0 {
		t.Fatal("the page names no file")
	}
	for _, m := range all {
		file := locate(m[1])
		if file == "" {
			t.Errorf("docs/architecture.md names %s: there is no such file, at the top or in %s", m[1], packages)
			continue
		}
		source, err := os.ReadFile(filepath.Join(top, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, quoted := range regexp.MustCompile(`\w+`).FindAllString(m[2], -1) {
			if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + quoted + `\b`).Match(source) {
				t.Errorf("docs/architecture.md names the function %s in %s: it is not there", quoted, file)
			}
		}
	}
}

func TestArchitecture_WalksCountFilesAndPackages(t *testing.T) {
	walks := strings.Split(section(t, "Four walks"), "\n### ")[1:]
	if len(walks) != 4 {
		t.Errorf("got %d walks, want 4", len(walks))
	}
	for _, walk := range walks {
		title, steps, _ := strings.Cut(walk, "\n")
		files, dirs := map[string]bool{}, map[string]bool{}
		for _, m := range named.FindAllStringSubmatch(steps, -1) {
			file := locate(m[1])
			files[file], dirs[path.Dir(file)] = true, true
		}
		want := fmt.Sprintf("This walk touches %d files in %d packages", len(files), len(dirs))
		if got := counted.FindString(steps); got != want {
			t.Errorf("%s: got %q, want %q", title, got, want)
		}
	}
}

func TestArchitecture_ListsPackagesOfSupervisor(t *testing.T) {
	described := described.FindAllStringSubmatch(section(t, "The packages of the supervisor"), -1)
	got := map[string]bool{}
	for _, m := range described {
		got[m[1]] = true
	}
	want := map[string]bool{"cmd/acphost": true, "daemon": true}
	err := filepath.WalkDir(filepath.Join(top, packages), func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "testdata" {
			return fs.SkipDir
		}
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			below, err := filepath.Rel(filepath.Join(top, packages), filepath.Dir(file))
			if err != nil {
				return err
			}
			if below = filepath.ToSlash(below); !strings.HasPrefix(below, "cli/") { // one row says what all commands are
				want[below] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("docs/architecture.md describes the packages\n%q\nand there are\n%q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

func TestArchitecture_TableOfQuestionEnds(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(top, packages, "question/end.go"))
	if err != nil {
		t.Fatal(err)
	}
	causes := regexp.MustCompile(`(?m)^\t\w+: +\{"`).FindAll(source, -1)
	rows := strings.Count(section(t, "A permission request's life"), "\n| ") - 1 // the head
	if len(causes) == 0 || rows != len(causes) {
		t.Errorf("got %d rows, want one for each of the %d causes in question/end.go", rows, len(causes))
	}
}
