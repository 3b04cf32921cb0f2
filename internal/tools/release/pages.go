package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// repository is the address of the source, for links in pages to files that a release does not contain.
const repository = "https://github.com/acphost/acphost"

// published are the files and folders of the repository that a release contains besides its programs: pages, and files
// that pages refer to. The folders have the same relative locations as in the repository, so that links between them
// work.
var published = []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "docs", "deploy", "proto", "examples"}

// pages returns the published files below the folder of documents. Pages are written into dir, because their links to
// files that are not published are replaced by links to the repository.
func (s source) pages(ctx context.Context, dir string) ([]file, error) {
	list, err := output(ctx, s.dir, nil, "git", append([]string{"ls-files", "--stage", "--"}, published...)...)
	if err != nil {
		return nil, err
	}
	var files []file
	known := map[string]bool{}
	for line := range strings.Lines(list) {
		info, name, ok := strings.Cut(strings.TrimSpace(line), "\t")
		// The generated code is released as modules.
		if !ok || !strings.HasPrefix(info, "100") || strings.HasSuffix(name, ".pb.go") {
			continue
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(info, "100755") {
			mode = 0o755
		}
		files = append(files, file{documents + name, filepath.Join(s.dir, filepath.FromSlash(name)), mode})
		for ; name != "."; name = path.Dir(name) {
			known[name] = true
		}
	}
	for i, f := range files {
		if !strings.HasSuffix(f.name, ".md") {
			continue
		}
		text, err := os.ReadFile(f.from)
		if err != nil {
			return nil, err
		}
		files[i].from = filepath.Join(dir, "page_"+strings.ReplaceAll(f.name, "/", "_"))
		page := s.relink(strings.TrimPrefix(f.name, documents), string(text), known)
		if err := os.WriteFile(files[i].from, []byte(page), 0o644); err != nil { //nolint:gosec // a release is public
			return nil, fmt.Errorf("write the page %s: %w", f.name, err)
		}
	}
	return files, nil
}

// link matches a relative link of Markdown: its target, and the text after the target.
var link = regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)

// relink returns the text of a page, with links to unknown files replaced by links to the repository at the version.
// name is the page's name in the repository.
func (s source) relink(name, text string, known map[string]bool) string {
	return link.ReplaceAllStringFunc(text, func(found string) string {
		m := link.FindStringSubmatch(found)
		to := path.Join(path.Dir(name), m[1])
		if known[to] || strings.HasPrefix(to, "../") {
			return found
		}
		if _, err := os.Stat(filepath.Join(s.dir, filepath.FromSlash(to))); err != nil {
			return found // code that looks like a link
		}
		return "](" + repository + "/blob/" + s.version + "/" + to + m[2] + ")"
	})
}
