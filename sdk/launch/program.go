package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// program is a handler's executable file, held open so that what is measured is what was started.
type program struct {
	path   string
	file   *os.File
	before os.FileInfo
	result chan measured
	taken  *measured
}

type measured struct {
	digest string
	err    error
}

// openProgram opens the file and begins to measure it; hashing overlaps with the start of the process.
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
	p := &program{path: path, file: file, before: info, result: make(chan measured, 1)}
	go func() {
		sum := sha256.New()
		_, err := io.Copy(sum, file)
		p.result <- measured{hex.EncodeToString(sum.Sum(nil)), err}
	}()
	return p, nil
}

// digest waits for the measure: SHA-256 in lower-case hexadecimal.
func (p *program) digest() (string, error) {
	if p.taken == nil {
		m := <-p.result
		p.taken = &m
	}
	if p.taken.err != nil {
		return "", fmt.Errorf("measure its program: %w", p.taken.err)
	}
	return p.taken.digest, nil
}

// require refuses a file whose digest is not want.
func (p *program) require(want string) error {
	if len(want) != hex.EncodedLen(sha256.Size) {
		return fmt.Errorf("sha256 %q is not 64 hexadecimal characters", want)
	}
	got, err := p.digest()
	if err != nil {
		return err
	}
	if !strings.EqualFold(got, want) {
		return fmt.Errorf("%s has sha256 %s, not %s as pinned: it was not started", p.path, got, strings.ToLower(want))
	}
	return nil
}

// same refuses if the path no longer leads to the measured file, unchanged. It is asked once the process runs: a file
// that was put there in between, or written to, has another inode or another change time, which its owner cannot set.
func (p *program) same() error {
	if _, err := p.digest(); err != nil {
		return err
	}
	now, err := os.Stat(p.path)
	if err != nil {
		return fmt.Errorf("its program vanished while it was started: %w", err)
	}
	if !os.SameFile(p.before, now) || now.Size() != p.before.Size() || !now.ModTime().Equal(p.before.ModTime()) ||
		changeTime(now) != changeTime(p.before) {
		return errors.New("its program changed while it was started: start it again")
	}
	return nil
}

// close ends the measure and waits for it.
func (p *program) close() {
	_, _ = p.digest()
	_ = p.file.Close()
}
