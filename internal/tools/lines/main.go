// Command lines counts the lines of this repository's Go code: for each package the lines of code and of comments,
// without blank lines, tests and generated code, and the percentage of comments.
//
//	go run ./internal/tools/lines                        # the work tree
//	go run ./internal/tools/lines -at REV                # a revision
//	go run ./internal/tools/lines -base REV [-at REV]    # changes since REV
//
// In the work tree it counts tracked files and untracked files that are not ignored. It treats everything below the
// top-level folder test as tests.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	at := flag.String("at", "", "the `revision` to count (default: the work tree)")
	base := flag.String("base", "", "the `revision` to compare with")
	flag.Parse()
	if err := run(os.Stdout, ".", *at, *base); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "lines:", err)
		os.Exit(1)
	}
}

// run writes the table of the repository that contains dir.
func run(out io.Writer, dir, at, base string) error {
	now, err := countAt(dir, at)
	if err != nil {
		return err
	}
	if base == "" {
		return writeCounts(out, now)
	}
	before, err := countAt(dir, base)
	if err != nil {
		return err
	}
	return writeChanges(out, before, now)
}

// countAt counts a revision by package; an empty revision is the work tree.
func countAt(dir, revision string) (map[string]count, error) {
	top, err := git(dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	dir = strings.TrimSuffix(string(top), "\n")
	counts := map[string]count{}
	add := func(name string, source []byte) {
		folder := path.Dir(name)
		counts[folder] = counts[folder].plus(countSource(source))
	}
	if revision == "" {
		return counts, eachInWorkTree(dir, add)
	}
	return counts, eachAtRevision(dir, revision, add)
}

func eachInWorkTree(dir string, each func(name string, source []byte)) error {
	list, err := git(dir, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(string(list), "\x00") {
		if !counted(name) {
			continue
		}
		source, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			each(name, source)
		} else if !errors.Is(err, fs.ErrNotExist) { // a missing file was removed, and is still in the index
			return err
		}
	}
	return nil
}

func eachAtRevision(dir, revision string, each func(name string, source []byte)) error {
	archive, err := git(dir, "archive", "--format=tar", "--end-of-options", revision)
	if err != nil {
		return err
	}
	for files := tar.NewReader(bytes.NewReader(archive)); ; {
		file, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var source []byte
		if err == nil {
			source, err = io.ReadAll(files)
		}
		if err != nil {
			return fmt.Errorf("read the archive of %s: %w", revision, err)
		}
		if file.Typeflag == tar.TypeReg && counted(file.Name) {
			each(file.Name, source)
		}
	}
}

func git(dir string, args ...string) ([]byte, error) {
	command := exec.Command("git", args...)
	command.Dir = dir
	var stderr strings.Builder
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return output, nil
}

// writeCounts writes a table of all packages, and their sum.
func writeCounts(out io.Writer, counts map[string]count) error {
	var sum count
	w := &table{}
	w.row("package", "code", "comments", "share")
	for _, folder := range slices.Sorted(maps.Keys(counts)) {
		c := counts[folder]
		sum = sum.plus(c)
		w.row(folder, c.code, c.comments, c.share())
	}
	w.row("all", sum.code, sum.comments, sum.share())
	return w.writeTo(out)
}

// writeChanges writes a table of the packages that differ, and the sums of all packages.
func writeChanges(out io.Writer, before, now map[string]count) error {
	var sumBefore, sumNow count
	w := &table{}
	w.row("package", "before", "now", "change", "comments", "share")
	folders := maps.Clone(before)
	maps.Copy(folders, now)
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		b, n := before[folder], now[folder]
		sumBefore, sumNow = sumBefore.plus(b), sumNow.plus(n)
		if b != n {
			w.row(folder, b.code, n.code, signed(n.code-b.code), signed(n.comments-b.comments), n.share())
		}
	}
	w.row("all", sumBefore.code, sumNow.code, signed(sumNow.code-sumBefore.code), signed(sumNow.comments-sumBefore.comments), sumNow.share())
	return w.writeTo(out)
}

func signed(n int) string { return fmt.Sprintf("%+d", n) }

// table aligns its first column to the left and all others to the right.
type table struct{ rows [][]string }

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = fmt.Sprint(cell)
	}
	t.rows = append(t.rows, row)
}

func (t *table) writeTo(out io.Writer) error {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for _, row := range t.rows {
		line := fmt.Sprintf("%-*s", widths[0], row[0])
		for i, cell := range row[1:] {
			line += fmt.Sprintf("  %*s", widths[i+1], cell)
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}
