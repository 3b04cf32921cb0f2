package containment

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/regular"
	"github.com/acphost/acphost/internal/sandbox"
)

// Limits of the configurations of repositories whose content is remembered. A removal beyond a limit is decided like
// other changes.
const (
	maxConfigs = 256
	// maxRemembered is the maximum size of one, in bytes.
	maxRemembered = 64 << 10
)

// configs remembers the content of configurations of repositories, so that a new file is compared with what it
// replaces, and with what the user had. The zero value is ready for use. It is safe for concurrent use.
type configs struct {
	mu        sync.Mutex
	removed   map[string][]byte // by path
	accepted  map[string][]byte // by path: before the agent changed it; nil: there was none
	addresses map[string]*userAddresses
}

// userAddresses tells the user's addresses in a configuration from those that the agent has added.
type userAddresses struct {
	users git.Addresses
	last  git.Addresses // all addresses after the last change of the agent
}

// accept returns the content that a configuration had before the agent first changed it, which is before if this is the
// first change. nil: there was none. Beyond the limits it returns an empty configuration, which accepts no remote.
func (c *configs) accept(path string, before []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if content, known := c.accepted[path]; known {
		return content
	}
	if len(c.accepted) >= maxConfigs || len(before) > maxRemembered {
		return []byte{}
	}
	if c.accepted == nil {
		c.accepted = map[string][]byte{}
	}
	c.accepted[path] = before
	return before
}

// acceptRepository remembers the configurations of the repository to which a folder of a session belongs.
func (c *configs) acceptRepository(folder string) {
	found := git.Find(folder)
	if found.Dir == "" {
		return
	}
	own, common := git.Folders(found.Dir)
	for _, file := range []string{filepath.Join(common, "config"), filepath.Join(own, "config.worktree")} {
		if content, err := regular.Read(file, maxRemembered); err == nil {
			c.accept(file, content)
		}
	}
}

// remove remembers a configuration that is about to be removed; false: it must not be removed without a decision.
func (c *configs) remove(path string) bool {
	content, err := regular.Read(path, maxRemembered)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.removed == nil {
		c.removed = map[string][]byte{}
	}
	if _, known := c.removed[path]; !known && len(c.removed) >= maxConfigs {
		return false
	}
	c.removed[path] = content
	return true
}

// judge is git.HarmlessConfig for a new content of a configuration, which replaces before. It knows from the changes
// that it has found harmless which addresses the agent has added. Other new addresses are the user's. The user's
// addresses are kept when they are removed.
func (c *configs) judge(path string, content, before []byte, trees []string) (why string) {
	accepted := c.accept(path, before)
	if len(before) > maxRemembered || len(content) > maxRemembered {
		return git.Addresses(nil).HarmlessConfigSince(path, content, before, accepted, trees...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	present, known := git.AddressesOf(before), c.addresses[path]
	switch {
	case known == nil && len(c.addresses) >= maxConfigs:
		return git.Addresses(nil).HarmlessConfigSince(path, content, before, accepted, trees...)
	case known == nil:
		if c.addresses == nil {
			c.addresses = map[string]*userAddresses{}
		}
		known = &userAddresses{users: maps.Clone(present), last: present}
		maps.Copy(known.users, git.AddressesOf(accepted))
		c.addresses[path] = known
	default:
		for name, values := range present {
			if !slices.Equal(values, known.last[name]) {
				known.users[name] = values
			}
		}
		known.last = present
	}
	if why = known.users.HarmlessConfigSince(path, content, before, accepted, trees...); why == "" {
		known.last = git.AddressesOf(content)
	}
	return why
}

// before returns the present content of a configuration, or else the content that it had when it was removed; nil: it
// has had none.
func (c *configs) before(path string) ([]byte, error) {
	content, err := regular.Read(path, sandbox.MaxContent)
	if !errors.Is(err, fs.ErrNotExist) {
		return content, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.removed[path], nil
}

// replaced compares the configurations in a folder that gets the name path with those that the user had below that
// name. from is the present name of the folder. It returns the first setting that may not differ; empty: there is none.
func (c *configs) replaced(path, from string) (why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for file, accepted := range c.accepted {
		rest, below := strings.CutPrefix(file, strings.TrimSuffix(path, "/")+"/")
		if !below || accepted == nil {
			continue
		}
		content, err := regular.Read(filepath.Join(from, rest), maxRemembered)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "a configuration that cannot be read"
		}
		if why := git.AddressesOf(accepted).HarmlessConfigSince(file, content, accepted, accepted); why != "" {
			return why
		}
	}
	return ""
}

// gitMeaning is the meaning of a change to git. The zero value is a change of no repository.
type gitMeaning struct {
	// state: the change is git's bookkeeping, because of which nothing runs.
	state bool
	// runs: git may run something because of the change.
	runs bool
	// byContent: the content will decide, and is not known yet.
	byContent bool
	// why says what the new content of a file would change that is more than bookkeeping; empty: the file is not judged
	// by its content, or the content is not known.
	why string
}

// gitMeaningOf returns the meaning of a change of a file to git.
func (d *Decider) gitMeaningOf(e *event) gitMeaning {
	if !filepath.IsAbs(e.Path) {
		return gitMeaning{}
	}
	change := git.Change{
		Path: e.Path, Folder: e.Leaves == sandbox.LeavesFolder, Link: e.Leaves == sandbox.LeavesLink, Made: e.Made,
		File: e.Placed || e.Stageable,
	}
	if e.Operation == sandbox.Move && len(e.Others) > 0 {
		change.From = e.Others[0]
		if why := d.configs.replaced(e.Path, change.From); why != "" {
			return gitMeaning{runs: true, why: why}
		}
	}
	if e.kept { // an agent may keep a repository of its own for the files of a session, which it may change there
		change.Trees = d.opts.Sessions.Roots()
	}
	meaning := git.WriteOf(change)
	if meaning == git.NotGit {
		return gitMeaning{}
	}
	state, why := d.isGitState(e, meaning, change.Trees)
	// Other files with a location are judged together with the names beside them.
	byContent := meaning.ByContent() && !state && !e.Placed && (meaning != git.Location || git.Own(e.Path))
	return gitMeaning{state: state, runs: !state, byContent: byContent, why: why}
}

// isGitState implements gitMeaningOf for a meaning of the file's name. trees are as in git.Change.
func (d *Decider) isGitState(e *event, meaning git.Write, trees []string) (state bool, why string) {
	switch {
	case meaning == git.State:
		return true, ""
	case !meaning.ByContent():
		return false, ""
	case e.Leaves == sandbox.LeavesContent, e.Leaves == sandbox.LeavesNothing && meaning != git.Config:
		return true, ""
	case e.Leaves == sandbox.LeavesNothing:
		return d.configs.remove(e.Path), ""
	case e.Placed && meaning == git.Index:
		why = git.HarmlessIndex(e.Content)
		return why == "", why
	case e.Placed:
		before, err := d.configs.before(e.Path)
		if err != nil {
			return false, ""
		}
		if meaning == git.Config {
			why = d.configs.judge(e.Path, e.Content, before, trees)
		} else {
			why = meaning.Harmless(e.Path, e.Content, before)
		}
		return why == "", why
	}
	return false, ""
}

// movesRepository reports whether a file moves with the repository that it belongs to, so that nothing changes for git:
// folder is renamed, and the repository's own folder lies below.
func movesRepository(folder, file string) bool {
	rest, below := strings.CutPrefix(file, strings.TrimSuffix(folder, "/")+"/")
	return below && slices.Contains(strings.Split(rest, "/"), ".git")
}
