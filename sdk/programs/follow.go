package programs

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many symbolic links one path may lead through, as on Linux.
const maxLinks = 40

// follow is where a path leads, and every place that it passes: as it is spelled, at each symbolic link, and in the end. A
// path that is not there leads where it would.
func follow(path string) (real string, passed []string) {
	path = filepath.Clean(path)
	passed = []string{path}
	here, rest := "/", strings.Split(strings.TrimPrefix(path, "/"), "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			here = filepath.Dir(here)
			continue
		}
		next := filepath.Join(here, name)
		to, err := os.Readlink(next)
		if err != nil || links == maxLinks {
			here = next
			continue
		}
		links++
		passed = append(passed, next)
		if filepath.IsAbs(to) {
			here = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return here, append(passed, here)
}

// interpreterOf is the program that the first line of a script names; empty if it names none. Not ok: it is no script, or
// cannot be read.
func interpreterOf(file string) (interpreter string, ok bool) {
	f, err := os.Open(file)
	if err != nil {
		return "", false
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && n == 0 {
		return "", false
	}
	line, script := strings.CutPrefix(string(head[:n]), "#!")
	if !script {
		return "", !strings.HasPrefix(line, "\x7fELF") && !strings.ContainsRune(line, 0)
	}
	line, _, _ = strings.Cut(line, "\n")
	words := strings.Fields(line)
	if len(words) == 0 {
		return "", true
	}
	return words[0], true
}
