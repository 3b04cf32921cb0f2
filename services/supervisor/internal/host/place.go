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
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/link"
)

// resolveTimeout limits the time for the file system handler to resolve the paths of one question.
const resolveTimeout = 5 * time.Second

// place returns a function that resolves paths of a session. A child process has the same files as the supervisor, so
// the supervisor resolves the path itself, and the child rejects the path if it resolves differently there. A sidecar
// resolves its paths itself, because it may run on another machine. A child also does so for an ambiguous path, and for
// every path if it runs as the agents' user: root has access to more than that user, and decisions would reveal to the
// agent which files exist. A path that cannot be resolved counts as outside of the roots. Unreachable names the handler
// if it does not answer.
func (la *linkedAgent) place(ctx context.Context, sessionID string, seen *paths.Cache) link.PlaceFunc {
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
		resolve := func(path string) (*fsv1.ResolveResponse, error) {
			return fsv1.NewFileSystemServiceClient(conn).Resolve(ctx, &fsv1.ResolveRequest{Context: cc, Path: path})
		}
		res, err := resolve(path)
		if err == nil && seen.NamesItself(path) && res.GetPath() != path { // a link: its own place is that of its folder
			at.Protected = at.Protected || res.GetProtected()
			if res, err = resolve(filepath.Dir(path)); err == nil {
				res.Path = filepath.Join(res.GetPath(), filepath.Base(path))
			}
		}
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

// local reports whether agents and their commands have the same files as the supervisor, with the same rights. Commands
// of a sidecar run elsewhere, and another user has access to other folders.
func (h *host) local() bool {
	return h.user == nil && !slices.ContainsFunc(append(h.answering(route.KindFS), h.answering(route.KindTerminal)...), h.isSidecar)
}

// insideRoots reports whether a path is in one root of the session, both as requested and as resolved.
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

// realRoots resolves the roots of a session whose files are local.
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

// rootsAge is the time for which a resolved root is cached. If a root changes meanwhile, paths only count as outside.
const rootsAge = time.Second

// maxRoots limits the cached roots.
const maxRoots = 256

// roots caches resolved roots for rootsAge. The zero value is ready.
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
