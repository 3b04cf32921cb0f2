package git

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/acphost/acphost/internal/regular"
	"github.com/acphost/acphost/internal/secretname"
)

const (
	// maxSuspects bounds what Inspect tells of.
	maxSuspects = 32
	// maxConfig is the longest configuration file, in bytes, that is read.
	maxConfig = 1 << 20
	// maxNested bounds repositories in repositories.
	maxNested = 8
)

// Use is how git is about to be run.
type Use struct {
	// Command is git's command, "status". Empty: none is known.
	Command string
	// Looks: the command only looks, so that of all hooks it runs but the one for the index.
	Looks bool
	// Quiet: git gets the environment of Quiet.
	Quiet bool
	// SystemPath: all folders of PATH lie where the agent cannot write, so that what git finds there is the system's.
	SystemPath bool
	// Config are further configuration files that git reads and that are no more trusted than the repository's.
	Config []string
}

// Inspect tells what of a repository may make git run a program, look elsewhere, or show a password: names of settings ("filter.x.clean"),
// of hooks ("hooks/pre-commit"), the same of what it holds as submodules ("sub: core.fsmonitor"), and what could not be
// read. Empty: nothing does. It tells apart what the environment of Quiet turns off, with the values of settings:
// "core.fsmonitor=x". That is empty where use is not quiet: all are suspects then. found is as Find has it, and Plain or Linked.
func Inspect(found Found, use Use) (suspects, quieted []string) {
	i := inspection{use: use}
	for _, file := range use.Config {
		i.config(file, file+": ", func(setting) bool { return false })
	}
	own, common := found.folders()
	i.repository(found.Top, own, common, "", 0)
	slices.Sort(i.quieted)
	return i.suspects, i.quieted
}

type inspection struct {
	use               Use
	suspects, quieted []string
}

func (i *inspection) suspect(name string) { add(&i.suspects, name) }

// quiet tells of what is turned off, if it is.
func (i *inspection) quiet(name string) {
	if i.use.Quiet {
		add(&i.quieted, name)
	} else {
		i.suspect(name)
	}
}

func add(to *[]string, name string) {
	if len(*to) < maxSuspects && !slices.Contains(*to, name) {
		*to = append(*to, name)
	}
}

// repository looks at one whose files lie in top, whose HEAD and index lie in own, and all else in common: for a linked worktree these
// are two folders. as is how it is told of: "" or "sub: ".
func (i *inspection) repository(top, own, common, as string, depth int) {
	if depth > maxNested {
		i.suspect(as + "submodules over 8 deep")
		return
	}
	for _, file := range []string{filepath.Join(common, "config"), filepath.Join(own, "config.worktree")} {
		i.config(file, as, func(s setting) bool { // submodules say where they are checked out
			switch s.name() {
			case "core.worktree":
				tree, err := led(filepath.Dir(file), s.value)
				return err == nil && tree == top
			case "core.bare": // of the repository that a worktree is linked to
				return own != common
			case "blame.ignorerevsfile":
				return within(top, s.value)
			}
			return false
		})
	}
	i.elsewhere(common, as)
	if name := linked(own, true); own != common && name != "" {
		i.suspect(as + "./" + name + " is a symbolic link, or cannot be read")
	}
	i.hooks(filepath.Join(common, "hooks"), as)
	modules, err := submodules(filepath.Join(own, "index"))
	if err != nil {
		i.suspect(as + "index: " + err.Error())
	}
	for _, link := range modules {
		// Where a name leads is followed as the system does: ".." behind a link is not what it looks like.
		at, err := led(top, link)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it is not checked out
		case err != nil:
			i.suspect(as + link + ": cannot be read")
		default:
			i.submodule(at, as+link+": ", depth)
		}
	}
}

// partial is how a repository is told of that lacks objects.
const partial = "partial clone: git may fetch what is missing"

// elsewhere tells of what is not kept in a repository's own folder: behind links, in other repositories, or on a server.
func (i *inspection) elsewhere(dir, as string) {
	if name := linked(dir, true); name != "" {
		i.suspect(as + "./" + name + " is a symbolic link, or cannot be read")
	}
	for _, name := range []string{"objects/info/alternates", "objects/info/http-alternates"} {
		data, err := bounded(filepath.Join(dir, name), maxConfig)
		if err != nil && !errors.Is(err, fs.ErrNotExist) || names(data) {
			i.suspect(as + name)
		}
	}
	packs, _ := os.ReadDir(filepath.Join(dir, "objects", "pack")) // what cannot be read is told of above
	if slices.ContainsFunc(packs, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), ".promisor") }) {
		i.suspect(as + partial)
	}
}

// names reports whether a list, such as that of alternates, has an entry.
func names(list []byte) bool {
	for line := range strings.Lines(string(list)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return true
		}
	}
	return false
}

// within reports whether a path that git reads from the top folder of the files stays there. It need not exist.
func within(top, path string) bool {
	if !filepath.IsLocal(path) || strings.ContainsAny(path[:1], "~%") { // these stand for other folders
		return false
	}
	at, err := led(top, path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && strings.HasPrefix(at, top+"/")
}

// led is where a path leads, from a folder if it is relative: absolute, without symbolic links.
func led(from, path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = from + "/" + path
	}
	return filepath.EvalSymlinks(path)
}

// submodule looks at the repository that is checked out in a folder, which is without symbolic links; none if the folder
// holds none.
func (i *inspection) submodule(top, as string, depth int) {
	own := filepath.Join(top, folder)
	info, err := os.Stat(own)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		i.suspect(as + "cannot be read")
		return
	}
	dir := own
	if !info.IsDir() {
		data, err := bounded(own, 4096)
		named, ok := strings.CutPrefix(string(data), "gitdir: ")
		if err != nil || !ok {
			i.suspect(as + "cannot be read")
			return
		}
		dir = strings.TrimRight(named, "\r\n")
	}
	if dir, err = led(top, dir); err != nil {
		i.suspect(as + "cannot be read")
		return
	}
	if _, err := os.Lstat(filepath.Join(dir, "commondir")); err == nil {
		i.suspect(as + "commondir")
	}
	i.repository(top, dir, dir, as, depth+1)
}

// config looks at a configuration file. known are settings that are harmless there.
func (i *inspection) config(file, as string, known func(setting) bool) {
	data, err := bounded(file, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var all []setting
	if err == nil {
		all, err = settings(data)
	}
	if err != nil {
		i.suspect(as + filepath.Base(file) + " that cannot be read")
		return
	}
	if info, err := os.Stat(file); err != nil || links(info) != 1 { // it can be written under another name
		i.suspect(as + filepath.Base(file) + " that has other hard links")
	}
	for _, s := range all {
		switch {
		case i.shows(s):
			s.sub = secretname.Replace(s.sub, "…")
			i.suspect(as + s.name())
		case i.harmless(s) || known(s):
		case s.isPartial():
			i.suspect(as + partial)
		case s.off(i.use.Quiet):
			i.quiet(as + s.name() + "=" + brief(s.value))
		default:
			i.suspect(as + s.name())
		}
	}
}

func (i *inspection) harmless(s setting) bool {
	switch {
	case s.isHarmless():
		return true
	case s.section == "alias" && i.use.Command != "": // git's own commands are not replaced by any
		return !strings.EqualFold(s.alias(), i.use.Command)
	case s.unread(i.use.Command), i.use.SystemPath && s.isLFS():
		return true
	}
	return false
}

// shows reports whether the command may print a setting that has a password in it: the address of a remote, or a part of one.
func (i *inspection) shows(s setting) bool {
	return among("remote config", i.use.Command) && (secretname.Value(s.value) || secretname.Value(s.sub))
}

// maxValue is how long a value may be, in bytes, that is told as it is.
const maxValue = 100

// brief is a value, or what stands for it.
func brief(value string) string {
	if len(value) <= maxValue {
		return value
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(value)))
}

// off reports whether a setting counts for nothing.
func (s setting) off(quiet bool) bool { return quiet && (s.section == "pager" || quieted[s.name()]) }

// hooks tells of the hooks that may run. For what only looks that is one alone.
func (i *inspection) hooks(dir, as string) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		i.quiet(as + "hooks that cannot be read")
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".sample") || i.use.Looks && e.Name() != "post-index-change" {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && (info.IsDir() || info.Mode().Perm()&0o111 == 0) {
			continue
		}
		i.quiet(as + "hooks/" + e.Name())
	}
}

// links is how many names a file has; 1 where the system does not say.
func links(info fs.FileInfo) uint64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 1
	}
	return uint64(st.Nlink) //nolint:unconvert // not so on every system
}

var errTooLong = errors.New("is too long")

// bounded reads a regular file of at most limit bytes.
func bounded(file string, limit int64) ([]byte, error) {
	f, info, err := open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > limit {
		return nil, errTooLong
	}
	return regular.ReadAll(f, file, int(limit))
}

// open opens a regular file. It does not wait if a process has put a named pipe in its place.
func open(file string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", file)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}
