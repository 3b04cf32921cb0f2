package host

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

func TestFolderError_DistinguishesMissingAndDenied(t *testing.T) {
	for reason, want := range map[string]string{
		"no such file or directory": `the folder /w (there /x) is missing in the sidecar "fs": no such file or directory: mount it there`,
		"not a directory":           `is missing in the sidecar "fs": not a directory: mount it there`,
		"permission denied.":        `the folder /w (there /x) cannot be read in the sidecar "fs": permission denied: let the user that the sidecar runs as read`,
		"operation not permitted":   `cannot be read in the sidecar "fs": operation not permitted: let the user`,
	} {
		got := folderError("fs", &pluginv1.MissingFolder{Path: "/w", Reason: reason}, " (there /x)").Error()
		if !strings.Contains(got, want) || strings.Contains(got, "missing") && strings.Contains(got, "permi") {
			t.Errorf("%s: got %q, want %q", reason, got, want)
		}
	}
}

func TestPlain_RemovesGRPCWords(t *testing.T) {
	for want, err := range map[string]error{
		"it did not answer in time": status.FromContextError(context.DeadlineExceeded).Err(),
		"paths[0]: goes up":         status.Error(codes.InvalidArgument, "paths[0]: goes up"),
	} {
		if got := plain(err); got.Error() != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if err := plain(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
