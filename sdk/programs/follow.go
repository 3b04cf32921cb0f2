package programs

import (
	"errors"
	"io"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks limits the symbolic links in one path, as on Linux.
const maxLinks = 40

// followLinks returns the target of a path, and every path on the way to it: the path as given, each symbolic link, and
// the target. For a path that does not exist it returns the target that it would have.
func (s *Resolver) followLinks(path string) (real string, passed []string) {
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

// interpreterOf returns the program in the first line of a script; empty if none exists. ok is false if the file is not
// a script, or cannot be read.
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

// headOf reads the beginning of a file. It does not use os.File, which would double the cost.
func headOf(file string, head []byte) (n int, err error) {
	fd, err := retryEINTR(func() (int, error) { return unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(fd) }()
	for n < len(head) {
		read, err := retryEINTR(func() (int, error) { return unix.Read(fd, head[n:]) })
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

// retryEINTR repeats a system call while signals interrupt it.
func retryEINTR(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
