package host

import (
	"context"
	"time"

	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/link"
	"github.com/acphost/acphost/services/supervisor/internal/route"
)

// resolveTimeout bounds how long the file system handler may take to say where the paths of one question lead.
const resolveTimeout = 5 * time.Second

// place returns what tells where paths of a session lead. The file system handler is asked, since it may run elsewhere;
// what it cannot say stays unresolved, and counts as outside the roots.
func (h *host) place(ctx context.Context, sessionID string) link.PlaceFunc {
	deadline := time.Now().Add(resolveTimeout) // for all paths of a question together
	return func(path string) intent.Place {
		at := intent.Place{Protected: h.gate.Protected(path)}
		cc, err := h.book.Context(sessionID)
		if err != nil {
			return at
		}
		conn, err := h.handlers.conn(route.KindFS)
		if err != nil {
			return at
		}
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		res, err := fsv1.NewFileSystemServiceClient(conn).Resolve(ctx, &fsv1.ResolveRequest{Context: cc, Path: path})
		if err != nil {
			h.log.Debug("a path could not be resolved", "error", err)
			return at
		}
		at.Resolved = res.GetPath()
		at.Inside = res.GetInsideRoots()
		at.Protected = at.Protected || res.GetProtected() || h.gate.Protected(res.GetPath())
		return at
	}
}
