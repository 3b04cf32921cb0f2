package grant

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/acphost/acphost/internal/lazyregexp"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

var (
	validID     = lazyregexp.New(`^[0-9a-z]{8,64}$`)
	validDigest = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)
	// validHost matches an endpoint as package hosts formats it.
	validHost = lazyregexp.New(`^(\[[0-9a-f:.]{2,45}\]|[a-z0-9_.-]{1,253}):[0-9]{1,5}( \([0-9a-f:., ]{2,900}\))?$`)
	validKind = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_./$-]{0,127}$`)
)

// check returns an error if a grant is invalid.
func check(g *supervisorv1.Grant) error {
	if err := checkShape(g); err != nil {
		return fmt.Errorf("grant %q: %w", g.GetId(), err)
	}
	return nil
}

// checkShape returns an error unless a grant has exactly one subject, and a scope.
func checkShape(g *supervisorv1.Grant) error {
	scope, argv := g.GetScope(), g.GetArgv()
	exactly := g.GetExactly() != ""
	run := !exactly && g.GetAction() == actionRun
	onPath := !exactly && (g.GetAction() == actionRead || g.GetAction() == actionWrite)
	toHost := !exactly && g.GetAction() == actionConnect
	ofCommand := len(argv) > 0 || g.GetPrefix() || g.GetCwd() != ""
	for _, rule := range []struct {
		broken bool
		why    string
	}{
		{!validID.MatchString(g.GetId()), "an id is 8 to 64 lower-case letters and digits"},
		{g.GetGrantedBy() == "", "it does not say who gave it (granted_by)"},
		{g.GetCreateTime() == nil || g.GetCreateTime().CheckValid() != nil, "it does not say when it was given (create_time)"},
		{g.GetExpireTime() != nil && g.GetExpireTime().CheckValid() != nil, "its end (expire_time) is no time"},

		{!slices.Contains(scopes, scope), "it does not say how far it reaches (scope)"},
		{scope == supervisorv1.GrantScope_GRANT_SCOPE_WORKSPACE && !absolute(g.GetWorkspace()),
			"a grant for a workspace names its absolute path"},
		{scope == supervisorv1.GrantScope_GRANT_SCOPE_AGENT && g.GetAgent() == "", "a grant for an agent names it"},

		{exactly && !validDigest.MatchString(g.GetExactly()), "exactly is no digest"},
		{exactly && (ofCommand || g.GetPath() != ""), "a grant of exactly one action names no command and no path beside it"},
		{exactly && !validKind.MatchString(g.GetAction()), "action is no kind of action"},
		{run && (len(argv) == 0 || argv[0] == ""), "a grant to run names a command (argv)"},
		{run && g.GetPath() != "", "a grant to run names no path"},
		{run && g.GetCwd() != "" && !absolute(g.GetCwd()), "cwd is not an absolute path without \"..\""},
		{onPath && ofCommand, "a grant of a path names no command"},
		{onPath && (!filepath.IsAbs(g.GetPath()) || climbs(g.GetPath()) || !doublestar.ValidatePattern(g.GetPath())),
			"path is not an absolute glob without \"..\""},
		{toHost && (ofCommand || g.GetPath() != ""), "a grant to connect names no command and no path"},
		{toHost && !validHost.MatchString(g.GetHost()), "a grant to connect names a machine and its port (host)"},
		{!toHost && g.GetHost() != "", "only a grant to connect names a machine"},
		{!exactly && !run && !onPath && !toHost,
			"action is neither \"run\", \"read\", \"write\" nor \"connect\", and it does not say exactly which action it covers"},
	} {
		if rule.broken {
			return errors.New(rule.why)
		}
	}
	return nil
}

// scopes are the valid scopes.
var scopes = []supervisorv1.GrantScope{
	supervisorv1.GrantScope_GRANT_SCOPE_TURN, supervisorv1.GrantScope_GRANT_SCOPE_SESSION,
	supervisorv1.GrantScope_GRANT_SCOPE_WORKSPACE, supervisorv1.GrantScope_GRANT_SCOPE_AGENT,
	supervisorv1.GrantScope_GRANT_SCOPE_EVERYWHERE,
}

func absolute(path string) bool {
	return filepath.IsAbs(path) && filepath.Clean(path) == path && !strings.ContainsRune(path, 0)
}
