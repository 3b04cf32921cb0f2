package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
)

// fsCases are for handlers of kind fs.
func fsCases() []Case {
	cases := fsReadCases()
	cases = append(cases, fsPathCases()...)
	cases = append(cases, fsWriteCases()...)
	cases = append(cases, fsListCases()...)
	return kind(KindFS, cases)
}

func (e *Env) fs() fsv1.FileSystemServiceClient { return fsv1.NewFileSystemServiceClient(e.Conn) }

// at is a path below the case's folder.
func (e *Env) at(name string) string { return filepath.Join(e.Dir, name) }

// put makes a file below the case's folder, and the folders on its way.
func (e *Env) put(name, content string) (path string, err error) {
	path = e.at(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(content), 0o644)
}

// putAll makes files by name and content.
func (e *Env) putAll(files map[string]string) error {
	for name, content := range files {
		if _, err := e.put(name, content); err != nil {
			return err
		}
	}
	return nil
}

// below is a context whose only root is a folder in the case's folder: what lies beside it is outside.
func (e *Env) below(name string) *acpv1.CallContext {
	c := e.Context()
	c.Roots = []*acpv1.Root{{Path: e.at(name)}}
	return c
}

func (e *Env) read(ctx context.Context, c *acpv1.CallContext, path string) (*fsv1.ReadTextFileResponse, error) {
	return e.fs().ReadTextFile(ctx, &fsv1.ReadTextFileRequest{Context: c, SessionId: c.GetSessionId(), Path: path})
}

func (e *Env) write(ctx context.Context, c *acpv1.CallContext, path, content string) (*fsv1.WriteTextFileResponse, error) {
	return e.fs().WriteTextFile(ctx, &fsv1.WriteTextFileRequest{
		Context: c, SessionId: c.GetSessionId(), Path: path, Content: content,
	})
}

// wantUntouchable demands that a read and a write of a path are refused with a code.
func (e *Env) wantUntouchable(ctx context.Context, c *acpv1.CallContext, what, path string, code codes.Code) {
	_, err := e.read(ctx, c, path)
	check(wantRefused("a read of "+what, err, code))
	_, err = e.write(ctx, c, path, "written")
	check(wantRefused("a write to "+what, err, code))
}

// wantContent demands what a file on the disk holds.
func wantContent(path, want string) error {
	got, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if string(got) != want {
		return differs("the file "+filepath.Base(path), string(got), want)
	}
	return nil
}

// wantAbsent demands that nothing is there.
func wantAbsent(path string) error {
	_, err := os.Lstat(path)
	if err == nil {
		return fmt.Errorf("%s was made", path)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// wantRefused demands an error with one of the codes, and of its text that it does not make an agent believe that a file
// is missing: agents create files on reading those words.
func wantRefused(what string, err error, allowed ...codes.Code) error {
	if failed := wantCode(what, err, allowed...); failed != nil {
		return failed
	}
	if status.Code(err) == codes.NotFound {
		return nil
	}
	message := status.Convert(err).Message()
	for _, words := range []string{"not found", "enoent", "does not exist", "no such file"} {
		if strings.Contains(strings.ToLower(message), words) {
			return fmt.Errorf("%s: %q says that something is missing, and must not", what, message)
		}
	}
	return nil
}

func wantMissing(err error, path string) error {
	return wantText("a missing file", err, codes.NotFound, "Resource not found: "+path)
}

func wantEscapes(err error, path string) error {
	return wantText("a path that leaves the roots", err, codes.InvalidArgument, "Path escapes workspace: "+path)
}

func wantText(what string, err error, code codes.Code, text string) error {
	if failed := wantRefused(what, err, code); failed != nil {
		return failed
	}
	if got := status.Convert(err).Message(); got != text {
		return differs("the message of "+what, got, text)
	}
	return nil
}
