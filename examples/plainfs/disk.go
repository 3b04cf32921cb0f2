package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
)

var (
	errFolder  = errors.New("it is a folder")
	errSpecial = errors.New("it is not a regular file")
)

// open opens the root that a place lies in, and returns the place's name in it. Nothing that is done by the root leaves
// it.
func open(at *fsv1.ResolveResponse) (root *os.Root, name string, err error) {
	folder, err := filepath.EvalSymlinks(at.GetRoot())
	if err != nil {
		return nil, "", err
	}
	if name, err = filepath.Rel(folder, at.GetPath()); err != nil {
		return nil, "", err
	}
	root, err = os.OpenRoot(folder)
	return root, name, err
}

func read(ctx context.Context, at *fsv1.ResolveResponse, r *fsv1.ReadTextFileRequest, most int64) (string, error) {
	root, name, err := open(at)
	if err != nil {
		return "", err
	}
	defer root.Close()
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe would wait for a writer
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errSpecial
	case r.Line == nil && r.Limit == nil && info.Size() > most:
		return "", tooLarge(info.Size(), most)
	}
	count := uint64(math.MaxUint64)
	if r.Limit != nil {
		count = uint64(r.GetLimit())
	}
	content, err := lines(ctx, file, uint64(max(r.GetLine(), 1)), count, most)
	if err == nil && (!utf8.ValidString(content) || strings.ContainsRune(content, 0)) {
		err = errors.New("it is not a text file")
	}
	return content, err
}

// lines returns count lines from the first one on, with their ends, and at most the given number of bytes.
func lines(ctx context.Context, file io.Reader, first, count uint64, most int64) (string, error) {
	var out strings.Builder
	in := bufio.NewReaderSize(file, 64<<10)
	for line := uint64(1); line < first || line-first < count; {
		part, err := in.ReadSlice('\n') // or what there is room for
		if line >= first {
			out.Write(part)
		}
		switch {
		case int64(out.Len()) > most:
			return "", tooLarge(int64(out.Len()), most)
		case ctx.Err() != nil:
			return "", ctx.Err()
		case errors.Is(err, io.EOF):
			return out.String(), nil
		case err == nil:
			line++
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		}
	}
	return out.String(), nil
}

func tooLarge(size, most int64) error {
	return status.Errorf(codes.OutOfRange, "%d bytes are more than %d: read it in parts, by line and limit", size, most)
}

// write writes the content to a new file and renames it over the old one, so that no reader gets part of the content. A
// file with several names is written in place, so that it keeps them.
func write(at *fsv1.ResolveResponse, content string) (err error) {
	root, name, err := open(at)
	if err != nil {
		return err
	}
	defer root.Close()
	old, err := root.Stat(name)
	switch {
	case err == nil && old.IsDir():
		return errFolder
	case err == nil && !old.Mode().IsRegular():
		return errSpecial
	case err == nil && old.Sys().(*syscall.Stat_t).Nlink > 1:
		return root.WriteFile(name, []byte(content), 0)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	beside := filepath.Join(filepath.Dir(name), ".plainfs-"+rand.Text())
	defer func() {
		if err != nil {
			_ = root.Remove(beside)
		}
	}()
	if err := root.WriteFile(beside, []byte(content), 0o666); err != nil {
		return err
	}
	if old != nil {
		if err := root.Chmod(beside, old.Mode().Perm()); err != nil {
			return err
		}
	}
	return root.Rename(beside, name)
}

// agentError converts an error to the error for the agent. Only the error for a missing file may state that it is
// missing, because agents create files when they read such words.
func agentError(err error, path string) error {
	code, text := codes.InvalidArgument, err.Error()
	errno := syscall.Errno(0)
	switch {
	case status.Code(err) != codes.Unknown:
		code, text = status.Code(err), status.Convert(err).Message()
	case errors.Is(err, fs.ErrNotExist):
		return status.Error(codes.NotFound, "Resource not found: "+path)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	case errors.Is(err, fs.ErrPermission):
		code, text = codes.PermissionDenied, "the system does not permit it"
	case errors.As(err, &errno):
		text = errno.Error()
		if errno != syscall.ENAMETOOLONG && errno != syscall.EISDIR && errno != syscall.ENOTDIR && errno != syscall.ENXIO {
			code = codes.Internal
		}
	}
	return status.Error(code, fmt.Sprintf("%s: %s", path, text))
}
