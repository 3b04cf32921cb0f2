package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/kernel"
)

// cacheVariables lists the variables for the folders in which tools keep build results and downloads, each with the
// name of its folder. The agent must not use the user's caches, because the user's next build of another workspace
// would use files that the agent left there.
var cacheVariables = [][2]string{{"GOCACHE", "go-build"}, {"npm_config_cache", "npm"}, {"PIP_CACHE_DIR", "pip"}}

// cachesFolder is the folder of all agents' caches, below the user's own folder for caches.
const cachesFolder = "acphost-agents"

// openCaches makes a folder for the caches of the agent's commands, which is kept, and returns its path and the variables that name folders
// in it. Agents with the same name share it. It sets the variables for the agent, too, and those of own for the agent
// alone. An empty path means that the agent's user has no home folder.
func (la *linkedAgent) openCaches(s *agent.Spec, own []string) (folder string, env []string, err error) {
	within, below := kernel.Variable(s.Env, "XDG_CACHE_HOME"), cachesFolder
	if !isFolder(within) {
		within, below = kernel.Variable(s.Env, "HOME"), filepath.Join(".cache", cachesFolder)
	}
	if !isFolder(within) {
		return "", nil, nil
	}
	below = filepath.Join(below, fileName(la.identity.Name))
	if err := makeFolders(within, below, s.User); err != nil {
		return "", nil, fmt.Errorf("make a folder for the caches of agent %q: %w", la.identity.Name, err)
	}
	if folder, err = cachesAt(filepath.Join(within, below)); err != nil {
		return "", nil, fmt.Errorf("find the folder for the caches of agent %q: %w", la.identity.Name, err)
	}
	for _, v := range cacheVariables {
		env = append(env, v[0]+"="+filepath.Join(folder, v[1]))
	}
	env = append(env, "npm_config_update_notifier=false") // npm would ask the registry for its own version with an empty cache
	if home := kernel.Variable(s.Env, "HOME"); !hasModules(s.Env, home) {
		env = append(env, "GOMODCACHE="+filepath.Join(folder, "go-mod"))
	}
	s.Env = replaced(s.Env, env)
	for _, name := range own {
		s.Env = replaced(s.Env, []string{name + "=" + filepath.Join(folder, strings.ToLower(name))})
	}
	return folder, env, nil
}

// hasModules reports whether the agent's user has a cache of Go modules, or configures a folder for it. Commands read
// from it then.
func hasModules(env []string, home string) bool {
	return kernel.Variable(env, "GOMODCACHE") != "" || kernel.Variable(env, "GOPATH") != "" || isFolder(filepath.Join(home, "go", "pkg", "mod"))
}

// cachesAt returns the folder of an agent's caches with symbolic links resolved. It returns an error if the folder
// itself, or that of all agents' caches, is a symbolic link: the agent may write and read there without a decision, and
// a link could lead elsewhere.
func cachesAt(path string) (string, error) {
	all := filepath.Dir(path)
	above, err := filepath.EvalSymlinks(filepath.Dir(all))
	if err != nil {
		return "", err
	}
	folder := filepath.Join(above, filepath.Base(all), filepath.Base(path))
	switch real, err := filepath.EvalSymlinks(folder); {
	case err != nil:
		return "", err
	case real != folder:
		return "", fmt.Errorf("%s is a symbolic link to %s: remove the link", folder, real)
	}
	return folder, nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir() && filepath.IsAbs(path)
}

// makeFolders creates the folders of a path below another, for a user. It does not follow symbolic links of another
// user out of the folder.
func makeFolders(within, path string, u *proc.User) error {
	as := u.Credential()
	if as == nil {
		return os.MkdirAll(filepath.Join(within, path), 0o700)
	}
	root, err := os.OpenRoot(within)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for i := range len(path) + 1 {
		if i < len(path) && path[i] != filepath.Separator {
			continue
		}
		dir := path[:i]
		switch err := root.Mkdir(dir, 0o700); {
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil:
			return err
		}
		if err := root.Lchown(dir, int(as.Uid), int(as.Gid)); err != nil {
			return err
		}
	}
	return nil
}

// fileName returns a name in which all characters except letters, digits and dashes are replaced.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, name)
}
