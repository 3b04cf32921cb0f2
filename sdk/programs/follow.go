package programs

import (
	"errors"
	"io"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links one path may lead through, as on Linux.
const maxLinks = 40

// follow is where a path leads, and every place that it passes: as it is spelled, at each symbolic link, and in the end. A
// path that is not there leads where it would.
func (s *Resolver) follow(path string) (real string, passed []string) {
	path = filepath.Clean(path)
	passed = []string{path}
	if s.Seen.Plain(path) {
		return path, passed
	}
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
		next := strings.TrimSuffix(here, "/") + "/" + name
		to, ok := s.Seen.Readlink(next)
		if !ok || links == maxLinks {
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
	var head [512]byte
	n, err := headOf(file, head[:])
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

// headOf reads the beginning of a file. It makes no os.File: that costs as much as the rest.
func headOf(file string, head []byte) (n int, err error) {
	fd, err := again(func() (int, error) { return unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(fd) }()
	for n < len(head) {
		read, err := again(func() (int, error) { return unix.Read(fd, head[n:]) })
		if err != nil {
			return n, err
		}
		if read == 0 {
			return n, io.EOF
		}
		n += read
	}
	return n, nil
}

// again makes a system call until no signal interrupts it.
func again(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
