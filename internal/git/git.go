// Package git determines how a repository makes git run programs: which files are git's own (so that nobody may write
// them who may not run programs), which repository git finds from a folder, and which programs the settings of this
// repository name.
//
// Git runs the programs that a repository names in its settings (core.fsmonitor, filter.*.clean, diff.*.textconv) and
// in its hooks, and does so in every folder that looks like a repository. An environment can turn some of this off
// (Quiet). For the rest, Inspect examines the repository before git starts. Inspect knows the harmless settings, and
// suspects all others.
//
// Git also shows contents of files that no word of a command names. ContentsOf says which commands do, Tracked and
// History which files a repository keeps, and Pathspecs tells a command to leave some out.
//
// For a process whose changes of files are decided on, WriteOf tells git's bookkeeping from what git runs, and
// HarmlessConfig, HarmlessIndex, HarmlessSteps, HarmlessRefs and HarmlessLocation judge the files whose content says
// it.
//
// The package reads files and runs nothing. All functions are safe for concurrent use. Their results can be out of date
// at once.
package git

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/wordset"
)

// folder is what git keeps a repository in.
const folder = ".git"

// Own reports whether a path is, or lies in, a folder or file named ".git", by its name alone, in every spelling that
// some file system takes for it: another case, dots and blanks at the end, NTFS' short name and streams, the characters
// that HFS+ ignores.
func Own(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		if isFolder(name) {
			return true
		}
	}
	return false
}

func isFolder(name string) bool {
	if len(name) < len(folder) || name[0] < utf8.RuneSelf && name[0] != '.' && name[0] != 'g' && name[0] != 'G' {
		return false
	}
	name, _, _ = strings.Cut(name, ":")
	name = strings.ToLower(strings.TrimRight(strings.Map(visible, name), ". "))
	return name == folder || name == "git~1"
}

// visible leaves out the characters that HFS+ ignores in names.
func visible(r rune) rune {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return -1
	}
	return r
}

// parts are the names below a repository's own folder that git reads or runs. All are lower-case.
var parts = wordset.Of(`head config config.worktree hooks objects refs info commondir gitdir packed-refs index modules
	worktrees logs reftable shallow sharedindex rebase-merge sequencer`)

// Completes reports whether a file that is written at one of the paths lies in a folder that git takes for a repository
// without being named ".git", or whether all of them together make a folder one: one with HEAD, objects and refs in it.
// The paths are absolute, and without symbolic links for a certain answer.
func Completes(paths ...string) bool {
	written := map[string][]string{} // the names of parts, lower-case, by their folders
	for _, path := range paths {
		for path = filepath.Clean(path); path != "/" && path != "."; {
			dir, name := ".", path
			if slash := strings.LastIndexByte(path, '/'); slash >= 0 {
				dir, name = path[:max(slash, 1)], path[slash+1:]
			}
			if name = strings.ToLower(name); parts[name] {
				written[dir] = append(written[dir], name)
			}
			path = dir
		}
	}
	for dir, names := range written {
		if looksLike(dir, names...) {
			return true
		}
	}
	return false
}

// MayBeOwn reports whether Own or Completes can hold for a path, whatever files there are.
func MayBeOwn(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		if parts[strings.ToLower(name)] || isFolder(name) {
			return true
		}
	}
	return false
}

// Decides reports whether a write at path may have a part in making a folder a repository, so that several such writes
// must not be judged at the same time.
func Decides(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		switch strings.ToLower(name) {
		case "head", "objects", "refs", "commondir":
			return true
		}
	}
	return false
}

// looksLike reports whether git may take dir for a repository's own folder, once the written names are in it, which are
// lower-case.
func looksLike(dir string, written ...string) bool {
	has := func(name string) bool {
		if slices.Contains(written, strings.ToLower(name)) {
			return true
		}
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	}
	return has("HEAD") && (has("commondir") || has("objects") && (has("refs") || has("reftable")))
}

// Quiet is env, each entry "NAME=VALUE", with what keeps git from running what a repository names, as far as an
// environment can: no file system monitor, no hooks, no pager, no editor, no signature program of log's, no
// repositories that are not named ".git", no remote helper "ext", no submodules but those that the index names, and,
// from git 2.45 on, no fetching of objects that a partial clone lacks. It counts whatever is in env and in any file.
// What it cannot turn off, or not with every git, Inspect tells of: filters, external diffs, programs of remotes,
// partial clones.
func Quiet(env []string) []string {
	var out []string
	count := 0
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		switch name {
		case "GIT_CONFIG_PARAMETERS", "GIT_EXTERNAL_DIFF": // they would count for more
			continue
		case "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_NO_LAZY_FETCH":
			continue
		case "GIT_CONFIG_COUNT":
			count = number(value)
			continue
		}
		out = append(out, entry)
	}
	kept := out[:0:0]
	for _, entry := range out { // settings past the count do not count, and would if it grew
		if n, ok := numbered(entry); ok && n >= count {
			continue
		}
		kept = append(kept, entry)
	}
	for i, setting := range quiet {
		n := strconv.Itoa(count + i)
		kept = append(kept, "GIT_CONFIG_KEY_"+n+"="+setting.key, "GIT_CONFIG_VALUE_"+n+"="+setting.value)
	}
	return append(kept, "GIT_CONFIG_COUNT="+strconv.Itoa(count+len(quiet)), "GIT_PAGER=cat", "GIT_EDITOR=:",
		"GIT_SEQUENCE_EDITOR=:", "GIT_NO_LAZY_FETCH=1")
}

// quiet are the settings of Quiet.
var quiet = []struct{ key, value string }{
	{"safe.bareRepository", "explicit"},
	{"core.fsmonitor", "false"},
	{"core.hooksPath", os.DevNull},
	{"log.showSignature", "false"},
	{"submodule.recurse", "false"},
	{"diff.submodule", "short"},
	{"protocol.ext.allow", "never"},
}

// quieted are the settings that count for nothing where Quiet was used. Lower-case.
var quieted = wordset.Of(`core.fsmonitor core.hookspath log.showsignature core.pager core.editor sequence.editor
	protocol.ext.allow submodule.recurse diff.submodule`)
