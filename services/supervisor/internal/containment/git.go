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

// Limits of the removed configurations of repositories whose content is remembered. A removal beyond a limit is decided like other changes.
const (
	maxConfigs = 256
	// maxRemembered is the maximum size of one, in bytes.
	maxRemembered = 64 << 10
)

// configs remembers the content of removed configurations of repositories, so that a new file is compared with what it replaces. The zero
// value is ready for use. It is safe for concurrent use.
type configs struct {
	mu        sync.Mutex
	removed   map[string][]byte // by path
	addresses map[string]*userAddresses
}

// userAddresses tells the user's addresses in a configuration from those that the agent has added.
type userAddresses struct {
	users git.Addresses
	last  git.Addresses // all addresses after the last change of the agent
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
	if len(before) > maxRemembered || len(content) > maxRemembered {
		return git.HarmlessConfig(path, content, before, trees...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	present, known := git.AddressesOf(before), c.addresses[path]
	switch {
	case known == nil && len(c.addresses) >= maxConfigs:
		return git.HarmlessConfig(path, content, before, trees...)
	case known == nil:
		if c.addresses == nil {
			c.addresses = map[string]*userAddresses{}
		}
		known = &userAddresses{users: maps.Clone(present), last: present}
		c.addresses[path] = known
	default:
		for name, values := range present {
			if !slices.Equal(values, known.last[name]) {
				known.users[name] = values
			}
		}
		known.last = present
	}
	if why = known.users.HarmlessConfig(path, content, before, trees...); why == "" {
		known.last = git.AddressesOf(content)
	}
	return why
}

// before returns the present content of a configuration, or else the content that it had when it was removed; nil: it has had none.
func (c *configs) before(path string) ([]byte, error) {
	content, err := regular.Read(path, sandbox.MaxContent)
	if !errors.Is(err, fs.ErrNotExist) {
		return content, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.removed[path], nil
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
	}
	if e.Operation == sandbox.Move && len(e.Others) > 0 {
		change.From = e.Others[0]
	}
	if e.kept { // an agent may keep a repository of its own for the files of a session, which it may change there
		change.Trees = d.opts.Sessions.Roots()
	}
	meaning := git.WriteOf(change)
	if meaning == git.NotGit {
		return gitMeaning{}
	}
	state, why := d.isGitState(e, meaning, change.Trees)
	byContent := meaning.ByContent() && !state && !e.Placed
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

// movesRepository reports whether a file moves with the repository that it belongs to, so that nothing changes for git: folder is renamed,
// and the repository's own folder lies below.
func movesRepository(folder, file string) bool {
	rest, below := strings.CutPrefix(file, strings.TrimSuffix(folder, "/")+"/")
	return below && slices.Contains(strings.Split(rest, "/"), ".git")
}
