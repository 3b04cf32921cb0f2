package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
)

// DigestError means that a program does not have the digest in Spec. It was not started.
type DigestError struct {
	// Program is the file.
	Program string
	// Want is the digest in Spec, and Got that of the file: SHA-256, lower-case hexadecimal.
	Want, Got string
}

// Error contains the file and both digests.
func (e *DigestError) Error() string {
	return fmt.Sprintf("%s has sha256 %s, not %s as pinned: it was not started", e.Program, e.Got, e.Want)
}

// program is a handler's executable file, held open so that the hashed file is the started one.
type program struct {
	path   string
	file   *os.File
	before os.FileInfo
	// digest hashes the file at the first call: SHA-256 in lower-case hexadecimal. It returns an error if the file has
	// changed. It is safe for concurrent use.
	digest func() (string, error)
}

// openProgram opens the file and records its state.
func openProgram(path string) (*program, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open its program: %w", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("open its program: %w", err)
	}
	p := &program{path: path, file: file, before: info}
	p.digest = sync.OnceValues(func() (string, error) {
		sum := sha256.New()
		if _, err := io.CopyBuffer(sum, io.NewSectionReader(file, 0, math.MaxInt64), make([]byte, 256<<10)); err != nil {
			return "", fmt.Errorf("measure its program: %w", err)
		}
		if err := p.checkUnchanged(); err != nil {
			return "", err
		}
		return hex.EncodeToString(sum.Sum(nil)), nil
	})
	return p, nil
}

// require returns an error if the file's digest is not want.
func (p *program) require(want string) error {
	if len(want) != hex.EncodedLen(sha256.Size) {
		return fmt.Errorf("sha256 %q is not 64 hexadecimal characters", want)
	}
	got, err := p.digest()
	if err != nil {
		return err
	}
	if !strings.EqualFold(got, want) {
		return &DigestError{Program: p.path, Want: strings.ToLower(want), Got: got}
	}
	return nil
}

// elfMagic is the beginning of files that the kernel executes directly.
const elfMagic = "\x7fELF"

// isELF reports whether only the program's own file is needed to execute it. For a script, the interpreter opens the
// script's path again.
func (p *program) isELF() bool {
	begin := make([]byte, len(elfMagic))
	_, err := p.file.ReadAt(begin, 0)
	return err == nil && string(begin) == elfMagic
}

// checkUnchanged returns an error if the path no longer leads to the opened file, or if the file was changed. It is
// called once the process runs, and again after hashing: a file that was replaced or written to in between has another
// inode or another change time, which its owner cannot set. A native program is executed from the opened file
// (descriptor). A script, or the program of another user, is executed by its path: replacing a folder above it and
// restoring it in time is not detected.
func (p *program) checkUnchanged() error {
	now, err := os.Stat(p.path)
	if err != nil {
		return fmt.Errorf("its program vanished while it was started: %w", err)
	}
	held, err := p.file.Stat()
	if err != nil {
		return fmt.Errorf("look at its program: %w", err)
	}
	if !os.SameFile(p.before, now) || changed(p.before, now) || changed(p.before, held) {
		return errors.New("its program changed while it was started: start it again")
	}
	return nil
}

func changed(before, now os.FileInfo) bool {
	return now.Size() != before.Size() || !now.ModTime().Equal(before.ModTime()) || changeTime(now) != changeTime(before)
}

func (p *program) close() { _ = p.file.Close() }
