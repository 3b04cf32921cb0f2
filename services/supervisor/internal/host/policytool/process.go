package policytool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/paths"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
)

// Kinds of rules for actions of processes.
const (
	kindStart   = "process.start"
	kindRead    = "process.read"
	kindWrite   = "process.write"
	kindGit     = "process.git"
	kindConnect = "net.connect"
)

// wallNames are the names of walls in rule files, in the order in which they are shown.
var wallNames = []string{"files", "reads", "network"}

var walls = map[string]permissionv1.Wall{
	"files":   permissionv1.Wall_WALL_FILES,
	"reads":   permissionv1.Wall_WALL_READS,
	"network": permissionv1.Wall_WALL_NETWORK,
}

// ParseWalls returns the walls of a list of their names; "none" alone is an empty list. The walls reads and network
// need the wall files.
func ParseWalls(names []string) ([]permissionv1.Wall, error) {
	parsed := []permissionv1.Wall{}
	if slices.Equal(names, []string{"none"}) {
		return parsed, nil
	}
	for _, name := range names {
		wall, known := walls[name]
		if !known {
			return nil, fmt.Errorf("expected files, reads and network, or none, got %q", name)
		}
		parsed = append(parsed, wall)
	}
	if !slices.Contains(names, "files") {
		return nil, fmt.Errorf("the walls reads and network are active only with files, got %q", strings.Join(names, ","))
	}
	return parsed, nil
}

// wordsOfWalls lists walls by name: "files, reads, network".
func wordsOfWalls(active []permissionv1.Wall) string {
	var names []string
	for _, name := range wallNames {
		if slices.Contains(active, walls[name]) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// ofProcess reports whether the question is about an action of a process that names no machine.
func (q Question) ofProcess() bool {
	return strings.HasPrefix(q.Kind, "process.") || q.Kind == kindConnect || len(q.Argv) > 0
}

// processAction returns the action of a process in the sandbox. file is absolute; empty if none exists.
func (q Question) processAction(s intent.Session, file string) (*permissionv1.Action, error) {
	if s.Walls == nil {
		for _, name := range wallNames {
			s.Walls = append(s.Walls, walls[name])
		}
	}
	switch {
	case len(q.Argv) > 0 && q.Kind != kindStart:
		return nil, fmt.Errorf("a program with its arguments is for the kind %s, got %q", kindStart, q.Kind)
	case len(q.Argv) > 0:
		a, _ := intent.Started(s, intent.ProgramStart{Args: q.Argv, Dir: q.Dir})
		return resolveCommand(q.Gate, a), nil
	case q.Kind == kindStart:
		return nil, fmt.Errorf("an action of the kind %s is the start of a program: expected \"-- PROGRAM [ARGUMENT...]\"", kindStart)
	case file == "":
		return nil, fmt.Errorf("an action of the kind %q has no command", q.Kind)
	case q.Kind == kindConnect:
		return intent.Connected(s, "unix", "", 0, paths.Real(file)), nil
	}
	return q.fileAction(s, paths.Real(file))
}

// fileAction implements processAction for a file, without symbolic links.
func (q Question) fileAction(s intent.Session, file string) (*permissionv1.Action, error) {
	meaning := git.WriteOf(git.Change{Path: file})
	switch q.Kind {
	case kindRead:
		return intent.ChangedFile(s, file, permissionv1.Access_ACCESS_READ), nil
	case kindWrite:
		if meaning == git.State {
			return nil, fmt.Errorf("%s is git's bookkeeping: its kind is %s", file, kindGit)
		}
	case kindGit:
		if meaning == git.NotGit || meaning == git.Runs {
			return nil, fmt.Errorf("%s is not git's bookkeeping: its kind is %s", file, kindWrite)
		}
	default:
		return nil, fmt.Errorf("expected process.start, process.read, process.write or process.git, got %q", q.Kind)
	}
	a := intent.ChangedFile(s, file, permissionv1.Access_ACCESS_WRITE)
	for _, p := range a.GetPaths() {
		p.GitState, p.GitInternal = q.Kind == kindGit, q.Kind == kindWrite && meaning != git.NotGit
	}
	return a, nil
}
