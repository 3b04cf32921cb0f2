package link

import (
	"context"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/secretfile"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
)

// staysPut is the start of the variable that makes Claude run every command in the session's directory.
const staysPut = "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR=1"

// PlaceFunc resolves a path.
type PlaceFunc = func(path string) intent.Place

// judging returns the session state that an action is judged against. cc may be nil if nothing is known of the session. seen caches the
// look-ups of paths for one request, and may be nil.
func (l *Link) judging(ctx context.Context, sessionID string, cc *acpv1.CallContext, seen *paths.Cache) intent.Session {
	s := intent.Session{
		Agent:      l.opts.AgentName,
		Dialect:    l.Reported().Name,
		Version:    l.Reported().Version,
		Configured: l.opts.Dialect,
		SessionID:  sessionID,
		Mode:       cc.GetMode(),
		Local:      l.opts.Local,
		Roots:      rootPaths(cc),
		Seen:       seen,
	}
	if l.opts.Containment != nil {
		s.Walls = l.opts.Containment.Walls()
	}
	s.StaysPut = slices.ContainsFunc(l.opts.AgentEnviron, func(entry string) bool { return strings.HasPrefix(entry, staysPut) })
	if l.opts.RealRoots != nil {
		s.ResolvedRoots = l.opts.RealRoots(s.Roots)
	}
	place := func(path string) intent.Place { return intent.Place{Protected: l.opts.Gate.By(seen).Protected(path)} }
	if l.opts.Place != nil {
		place = l.opts.Place(ctx, sessionID, seen)
	}
	known := append(append([]string(nil), s.Roots...), s.ResolvedRoots...)
	s.Place = func(path string) intent.Place {
		at := place(path)
		at.Protected = at.Protected || gate.ProtectedBelow(known, path) ||
			at.Resolved != "" && gate.ProtectedBelow(known, at.Resolved)
		at.GitInternal = gate.GitInternal(path, at.Resolved)
		switch {
		case at.Resolved == "":
		case l.opts.Local:
			at.Content = func(reads bool) secretfile.Verdict { return secretfile.File(at.Resolved, reads) }
		default:
			at.Content = func(bool) secretfile.Verdict { return secretfile.Judge(at.Resolved, nil, false) }
		}
		return at
	}
	return s
}

// decisionRequest returns the request to the gate for an action. seen caches the look-ups of paths for one request, and may be nil.
func (l *Link) decisionRequest(sessionID string, a *permissionv1.Action, seen *paths.Cache) gate.Request {
	l.opts.Gate.By(seen).Mark(a)
	scope, turn := l.opts.Sessions.Turn(sessionID)
	return gate.Request{Action: a, Scope: scope, Turn: turn}
}

func rootPaths(cc *acpv1.CallContext) []string {
	var paths []string
	for _, r := range cc.GetRoots() {
		paths = append(paths, r.GetPath())
	}
	return paths
}
