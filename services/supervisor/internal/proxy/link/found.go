package link

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/acphost/acphost/internal/paths"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/sdk/programs"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
)

// lookFrom resolves the programs of an action's command, if no handler runs the command. environ is the environment that the agent was
// started with; nil: the one that the editor passed to acphost.
func (l *Link) lookFrom(environ []string, a *permissionv1.Action) {
	l.resolvePrograms(&programs.Resolver{Environ: environ}, a)
}

// resolvePrograms is lookFrom with the environment of a resolver, which may have cached path look-ups of the request.
func (l *Link) resolvePrograms(resolver *programs.Resolver, a *permissionv1.Action) {
	if a.GetCommand() == nil {
		return
	}
	if resolver.Environ == nil {
		resolver.Environ = os.Environ()
	}
	resolver.Roots = slices.Concat(a.GetRoots(), a.GetResolvedRoots())
	intent.Found(a, resolver.Look(intent.SimpleCommands(a)))
	l.markOtherRoots(a, resolver.Seen)
}

// markOtherRoots marks programs in the roots of the agent's other sessions, because the agent may have written them.
func (l *Link) markOtherRoots(a *permissionv1.Action, seen *paths.Cache) {
	var roots []string
	for _, root := range l.opts.Sessions.Roots() {
		roots = append(roots, filepath.Clean(root), seen.Real(filepath.Clean(root)))
	}
	for _, sub := range a.GetCommand().GetSubCommands() {
		for _, p := range append([]*acpv1.Program{sub.GetProgram()}, sub.GetWrapperPrograms()...) {
			if p.GetPath() != "" && slices.ContainsFunc(roots, func(root string) bool {
				return paths.Below(root, p.GetPath()) || paths.Below(root, p.GetResolvedPath())
			}) {
				p.InsideRoots = true
			}
		}
	}
}
