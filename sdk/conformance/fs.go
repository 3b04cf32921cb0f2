package conformance

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
)

func (e *env) fs() fsv1.FileSystemServiceClient { return fsv1.NewFileSystemServiceClient(e.Conn) }

// at returns a path below the case's folder.
func (e *env) at(name string) string { return filepath.Join(e.dir, name) }

// put makes a file below the case's folder, with its parent folders.
func (e *env) put(name, content string) (path string) {
	path = e.at(name)
	check(os.MkdirAll(filepath.Dir(path), 0o755))
	check(os.WriteFile(path, []byte(content), 0o644))
	return path
}

// putAll makes files by name and content.
func (e *env) putAll(files map[string]string) {
	for name, content := range files {
		e.put(name, content)
	}
}

// link makes a symbolic link below the case's folder.
func (e *env) link(target, name string) { check(os.Symlink(target, e.at(name))) }

// below returns a context whose only root is a folder in the case's folder: other files there are outside.
func (e *env) below(name string) *acpv1.CallContext {
	c := e.context()
	c.Roots = []*acpv1.Root{{Path: e.at(name)}}
	return c
}

func (e *env) read(ctx context.Context, c *acpv1.CallContext, path string) (*fsv1.ReadTextFileResponse, error) {
	return e.readLines(ctx, c, path, nil, nil)
}

func (e *env) readLines(
	ctx context.Context, c *acpv1.CallContext, path string, line, limit *uint32,
) (*fsv1.ReadTextFileResponse, error) {
	return e.fs().ReadTextFile(ctx, &fsv1.ReadTextFileRequest{
		Context: c, SessionId: c.GetSessionId(), Path: path, Line: line, Limit: limit,
	})
}

func (e *env) write(ctx context.Context, c *acpv1.CallContext, path, content string) (*fsv1.WriteTextFileResponse, error) {
	return e.fs().WriteTextFile(ctx, &fsv1.WriteTextFileRequest{
		Context: c, SessionId: c.GetSessionId(), Path: path, Content: content,
	})
}

// wantInaccessible requires that a read and a write of a path are rejected with a code.
func (e *env) wantInaccessible(ctx context.Context, c *acpv1.CallContext, what, path string, code codes.Code) {
	_, err := e.read(ctx, c, path)
	wantRejected("a read of "+what, err, code)
	_, err = e.write(ctx, c, path, "written")
	wantRejected("a write to "+what, err, code)
}

// wantContent requires the content of a file.
func wantContent(path, want string) {
	equal("the file "+filepath.Base(path), string(must(os.ReadFile(path))), want)
}

// wantAbsent requires that no file exists at the path.
func wantAbsent(path string) {
	_, err := os.Lstat(path)
	require(errors.Is(err, os.ErrNotExist), "%s was made, or cannot be looked at: %v", path, err)
}

// wantRejected requires an error with one of the codes. Its text must not suggest to an agent that a file is missing:
// agents create files when they read such words.
func wantRejected(what string, err error, allowed ...codes.Code) {
	wantCode(what, err, allowed...)
	if status.Code(err) == codes.NotFound {
		return
	}
	message := status.Convert(err).Message()
	for _, words := range []string{"not found", "enoent", "does not exist", "no such file"} {
		require(!strings.Contains(strings.ToLower(message), words),
			"%s: %q states that something is missing, and must not", what, message)
	}
}

// wantErrorText requires that an error's text contains words.
func wantErrorText(what string, err error, words ...string) {
	message := status.Convert(err).Message()
	for _, word := range words {
		expect(strings.Contains(message, word), "the message of "+what, message, "one that says "+word)
	}
}

func wantMissing(err error, path string) {
	wantText("a missing file", err, codes.NotFound, "Resource not found: "+path)
}

func wantEscapes(err error, path string) {
	wantText("a path that leaves the roots", err, codes.InvalidArgument, "Path escapes workspace: "+path)
}

func wantText(what string, err error, code codes.Code, text string) {
	wantRejected(what, err, code)
	equal("the message of "+what, status.Convert(err).Message(), text)
}
