package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
)

// foldersTimeout limits the time for sidecars to check a session's folders. The client's next message waits for them.
const foldersTimeout = 3 * time.Second

// checkOpening implements link.Options.CheckOpening. It rejects a session if a sidecar that would serve it lacks one of
// its folders. It does not call handlers that acphost starts, because they have the same files as acphost. It also
// rejects loading an open session into a folder of other handlers, because the session's state at its present handlers
// would be lost without notice.
func (la *linkedAgent) checkOpening(ctx context.Context, again string, roots []string) error {
	h := la.host
	if table := h.handlers.routesNow(); again != "" && table != nil && table.Divided() && slices.Contains(la.table.Open(), again) {
		if home := la.table.Home(again); table.At(home) != table.At(roots[0]) {
			return fmt.Errorf("session %q was opened in %s and stays with the handlers of that folder, which are not those of %s (routes): close the session first, or open another one",
				again, home, roots[0])
		}
	}
	ctx, cancel := context.WithTimeout(ctx, foldersTimeout)
	defer cancel()
	for _, name := range h.sidecarsAt(roots[0]) {
		if err := h.checkFolders(ctx, name, roots); err != nil {
			return err
		}
	}
	return nil
}

// sidecarsAt returns the sidecars that serve files and commands of sessions in a folder, and those with mapped paths.
func (h *host) sidecarsAt(dir string) []string {
	var names []string
	table := h.handlers.routesNow()
	if table == nil {
		return nil
	}
	table = table.At(dir)
	for _, name := range table.Handlers() {
		if !h.isSidecar(name) {
			continue
		}
		if h.handlers.maps[name] != nil || slices.ContainsFunc([]string{route.KindFS, route.KindTerminal}, func(kind string) bool { return answers(table, kind, name) }) {
			names = append(names, name)
		}
	}
	return names
}

// checkFolders returns an error if a sidecar lacks a folder. If the check itself fails, it returns nil, because later
// calls to the sidecar report the problem.
func (h *host) checkFolders(ctx context.Context, name string, folders []string) error {
	missing, err := h.handlers.missing(ctx, name, folders)
	switch code := status.Code(err); {
	case code == codes.InvalidArgument: // a path that the sidecar does not have
		return fmt.Errorf("the sidecar %q cannot serve the session: %s", name, status.Convert(err).Message())
	case err != nil:
		if code != codes.Unimplemented {
			h.log.Warn("whether a session's folders are in a sidecar is not known", "handler", name, "error", err)
		}
		return nil
	}
	var said []error
	for _, m := range missing {
		as := ""
		if there, err := h.handlers.maps[name].SidecarPath(m.GetPath()); err == nil && there != m.GetPath() {
			as = " (there " + there + ")"
		}
		said = append(said, folderError(name, m, as))
	}
	return errors.Join(said...)
}

// folderError returns the error for a folder that a sidecar cannot use. as is the sidecar's path of the folder, if that
// differs.
func folderError(name string, m *pluginv1.MissingFolder, as string) error {
	reason := strings.TrimSuffix(m.GetReason(), ".")
	if FolderDenied(m) {
		return fmt.Errorf("the folder %s%s cannot be read in the sidecar %q: %s: let the user that the sidecar runs as read and enter it and the folders above it",
			m.GetPath(), as, name, reason)
	}
	return fmt.Errorf("the folder %s%s is missing in the sidecar %q: %s: mount it there under that path, or say by handlers.%s.paths under which path the sidecar has it",
		m.GetPath(), as, name, reason, name)
}

// FolderDenied reports whether a folder may exist although a sidecar cannot use it, because the sidecar has no
// permission.
func FolderDenied(m *pluginv1.MissingFolder) bool {
	return strings.Contains(m.GetReason(), "permission denied") || strings.Contains(m.GetReason(), "not permitted")
}

// missing requests the folders that a handler lacks. The paths are the client's.
func (hs *handlers) missing(ctx context.Context, name string, folders []string) ([]*pluginv1.MissingFolder, error) {
	conn, err := hs.conn(name)
	if err != nil {
		return nil, err
	}
	res, err := pluginv1.NewPluginServiceClient(conn).CheckFolders(ctx, &pluginv1.CheckFoldersRequest{Paths: folders})
	return res.GetMissing(), err
}
