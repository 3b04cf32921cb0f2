package grant

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

var (
	validID     = regexp.MustCompile(`^[0-9a-z]{8,64}$`)
	validDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	validKind   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./$-]{0,127}$`)
)

// check returns why a grant is none.
func check(g *supervisorv1.Grant) error {
	if err := checkShape(g); err != nil {
		return fmt.Errorf("grant %q: %w", g.GetId(), err)
	}
	return nil
}

func checkShape(g *supervisorv1.Grant) error {
	switch {
	case !validID.MatchString(g.GetId()):
		return errors.New("an id is 8 to 64 lower-case letters and digits")
	case g.GetGrantedBy() == "":
		return errors.New("it does not say who gave it (granted_by)")
	case g.GetCreateTime() == nil || g.GetCreateTime().CheckValid() != nil:
		return errors.New("it does not say when it was given (create_time)")
	case g.GetExpireTime() != nil && g.GetExpireTime().CheckValid() != nil:
		return errors.New("its end (expire_time) is no time")
	}
	switch g.GetScope() {
	case supervisorv1.GrantScope_GRANT_SCOPE_TURN, supervisorv1.GrantScope_GRANT_SCOPE_SESSION,
		supervisorv1.GrantScope_GRANT_SCOPE_EVERYWHERE:
	case supervisorv1.GrantScope_GRANT_SCOPE_WORKSPACE:
		if !absolute(g.GetWorkspace()) {
			return errors.New("a grant for a workspace names its absolute path")
		}
	case supervisorv1.GrantScope_GRANT_SCOPE_AGENT:
		if g.GetAgent() == "" {
			return errors.New("a grant for an agent names it")
		}
	default:
		return errors.New("it does not say how far it reaches (scope)")
	}
	return checkWhat(g)
}

// checkWhat looks at what is granted: exactly one thing.
func checkWhat(g *supervisorv1.Grant) error {
	if g.GetExactly() != "" {
		switch {
		case !validDigest.MatchString(g.GetExactly()):
			return errors.New("exactly is no digest")
		case len(g.GetArgv()) > 0 || g.GetPrefix() || g.GetCwd() != "" || g.GetPath() != "":
			return errors.New("a grant of exactly one action names no command and no path beside it")
		case !validKind.MatchString(g.GetAction()):
			return errors.New("action is no kind of action")
		}
		return nil
	}
	switch g.GetAction() {
	case actionRun:
		switch {
		case len(g.GetArgv()) == 0 || g.GetArgv()[0] == "":
			return errors.New("a grant to run names a command (argv)")
		case g.GetPath() != "":
			return errors.New("a grant to run names no path")
		case g.GetCwd() != "" && !absolute(g.GetCwd()):
			return errors.New("cwd is not an absolute path without \"..\"")
		}
	case actionRead, actionWrite:
		switch {
		case len(g.GetArgv()) > 0 || g.GetPrefix() || g.GetCwd() != "":
			return errors.New("a grant of a path names no command")
		case !filepath.IsAbs(g.GetPath()) || climbs(g.GetPath()) || !doublestar.ValidatePattern(g.GetPath()):
			return errors.New("path is not an absolute glob without \"..\"")
		}
	default:
		return errors.New("action is neither \"run\", \"read\" nor \"write\", and it does not say exactly which action it covers")
	}
	return nil
}

func absolute(path string) bool {
	return filepath.IsAbs(path) && filepath.Clean(path) == path && !strings.ContainsRune(path, 0)
}
