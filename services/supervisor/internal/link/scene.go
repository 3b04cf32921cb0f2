package link

import (
	"context"
	"slices"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
)

// PlaceFunc tells where a path leads.
type PlaceFunc = func(path string) intent.Place

// scene is what an action of a session is seen against. cc may be nil: nothing is known of the session.
func (l *Link) scene(ctx context.Context, sessionID string, cc *acpv1.CallContext) intent.Scene {
	s := intent.Scene{
		Agent:     l.opts.AgentName,
		Dialect:   l.Reported().Name,
		SessionID: sessionID,
		Mode:      cc.GetMode(),
		Roots:     rootPaths(cc),
	}
	if l.opts.RealRoots != nil {
		s.ResolvedRoots = l.opts.RealRoots(s.Roots)
	}
	place := func(path string) intent.Place { return intent.Place{Protected: l.opts.Gate.Protected(path)} }
	if l.opts.Place != nil {
		place = l.opts.Place(ctx, sessionID)
	}
	known := append(append([]string(nil), s.Roots...), s.ResolvedRoots...)
	s.Place = func(path string) intent.Place {
		at := place(path)
		at.Protected = at.Protected || gate.ProtectedBelow(known, path) ||
			at.Resolved != "" && gate.ProtectedBelow(known, at.Resolved)
		return at
	}
	return s
}

// request is an action as the gate decides it.
func (l *Link) decisionRequest(sessionID string, a *permissionv1.Action) gate.Request {
	l.protectCommand(a)
	scope, turn := l.opts.Book.Turn(sessionID)
	return gate.Request{Action: a, Scope: scope, Turn: turn}
}

// protectCommand marks an action whose command names acphost's own files.
func (l *Link) protectCommand(a *permissionv1.Action) {
	roots := slices.Concat(a.GetRoots(), a.GetResolvedRoots())
	if p := l.opts.Gate.ProtectedCommand(a.GetCommand(), roots); p != "" {
		a.Paths = append(a.Paths, &permissionv1.PathAccess{Path: p, Access: permissionv1.Access_ACCESS_WRITE, Protected: true})
	}
}

func rootPaths(cc *acpv1.CallContext) []string {
	var paths []string
	for _, r := range cc.GetRoots() {
		paths = append(paths, r.GetPath())
	}
	return paths
}
