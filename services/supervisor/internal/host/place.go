package host

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/paths"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/link"
	"github.com/acphost/acphost/services/supervisor/internal/route"
)

// resolveTimeout bounds how long the file system handler may take to say where the paths of one question lead.
const resolveTimeout = 5 * time.Second

// place returns what tells where paths of a session lead. A child of ours sees the files that we see, so where a path
// leads is looked at from here, and the child refuses to open it if it finds otherwise. A sidecar is asked, since it may
// run elsewhere; so is a child about a path that can be read in more ways than one, and one that runs as the agents' user
// about every path: root sees more than that user, and what comes of a decision would tell the agent what is there. A
// path that cannot be resolved counts as outside the roots; Unreachable names the handler if that is down.
func (la *linkedAgent) place(ctx context.Context, sessionID string, seen *paths.Seen) link.PlaceFunc {
	h := la.host
	deadline := time.Now().Add(resolveTimeout) // for all paths of a question together
	handler := h.handlers.handlerAt(route.KindFS, la.table.Home(sessionID))
	own := h.gate.By(seen)
	local := !h.isSidecar(handler) && h.user == nil
	return func(path string) intent.Place {
		cc, err := la.table.Context(sessionID)
		if err == nil && local && filepath.IsAbs(path) && filepath.Clean(path) == path {
			at := intent.Place{Resolved: seen.Real(path)}
			at.Inside = h.insideRoots(path, at.Resolved, cc)
			at.Protected = own.ProtectedName(path) || own.ProtectedName(at.Resolved)
			at.NoFolder = seen.NoFolder(at.Resolved)
			return at
		}
		at := intent.Place{Protected: own.Protected(path)}
		if err != nil {
			return at
		}
		conn, err := h.handlers.conn(handler)
		if err != nil {
			at.Unreachable = handler
			return at
		}
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		res, err := fsv1.NewFileSystemServiceClient(conn).Resolve(ctx, &fsv1.ResolveRequest{Context: cc, Path: path})
		if err != nil {
			h.log.Debug("a path could not be resolved", "error", err)
			if status.Code(err) == codes.Unavailable {
				at.Unreachable = handler
			}
			return at
		}
		at.Resolved = res.GetPath()
		at.Inside = res.GetInsideRoots()
		at.Protected = at.Protected || res.GetProtected() || h.gate.Protected(res.GetPath())
		return at
	}
}

// local reports whether agents and their commands see the files that we see, with the same rights. Commands of a sidecar run
// elsewhere, and another user sees other folders.
func (h *host) local() bool {
	return h.user == nil && !slices.ContainsFunc(append(h.answering(route.KindFS), h.answering(route.KindTerminal)...), h.isSidecar)
}

// insideRoots reports whether a path lies in one root of the session by both of its spellings.
func (h *host) insideRoots(asked, resolved string, cc *acpv1.CallContext) bool {
	spelled, real := false, false
	for _, r := range cc.GetRoots() {
		root := filepath.Clean(r.GetPath())
		led := h.roots.real(root)
		spelled = spelled || paths.Below(root, asked) || paths.Below(led, asked)
		real = real || paths.Below(led, resolved)
	}
	return spelled && real
}

// realRoots tells where roots really lead, for a session whose files are seen from here.
func (h *host) realRoots(roots []string) []string {
	if len(roots) > 0 && h.isSidecar(h.handlers.handlerAt(route.KindFS, roots[0])) {
		return nil
	}
	real := make([]string, len(roots))
	for i, root := range roots {
		real[i] = h.roots.real(root)
	}
	return real
}

// rootsAge is how long it counts where a root was seen to lead. A root that leads elsewhere meanwhile only makes paths
// count as outside.
const rootsAge = time.Second

// maxRoots bounds the roots that are remembered.
const maxRoots = 256

// roots remembers for a moment where roots lead. The zero value is ready.
type roots struct {
	mu   sync.Mutex
	seen map[string]rootSeen
}

type rootSeen struct {
	real string
	at   time.Time
}

func (r *roots) real(root string) string {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.seen[root]; ok && now.Sub(s.at) < rootsAge {
		return s.real
	}
	if r.seen == nil || len(r.seen) >= maxRoots {
		r.seen = map[string]rootSeen{}
	}
	s := rootSeen{real: paths.Real(root), at: now}
	r.seen[root] = s
	return s.real
}
