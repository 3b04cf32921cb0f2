package gate

import (
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/paths"
)

const (
	ownProcess   = "itself"
	otherProcess = "another"
	// maxFollowed limits the links that are followed in a path.
	maxFollowed = 40
)

// led is the target of a path for a process.
type led struct {
	// path is the target without links. Behind another process's directory, it is the part below that directory. Empty: not known.
	path string
	// by is the process whose folder in /proc the path leads through; empty: none.
	by string
}

var processFolder = lazyregexp.New(`^/proc/(self|thread-self|[0-9]+)(/task/[0-9]+)?$`)

// resolveLinks resolves an absolute path for a process that runs in a folder. "self" in /proc means that process, not this one. A path that
// does not exist is its own target.
func (g Sight) resolveLinks(file, cwd string) led {
	if g.seen.Plain(file) && !paths.Below("/proc", file) {
		return led{file, ""}
	}
	at, by := "/", ""
	rest := strings.Split(file, "/")
	for links := 0; len(rest) > 0 && len(rest) < 4096; {
		name := rest[0]
		rest = rest[1:]
		var in []string
		if strings.HasPrefix(at, "/proc/") {
			in = processFolder.FindStringSubmatch(at)
		}
		switch {
		case name == "" || name == ".":
			continue
		case name == "..":
			at = path.Dir(at)
			continue
		case at == "/proc" && (name == "self" || name == "thread-self"):
			at += "/" + name
			continue
		case in == nil:
		case name == "root":
			at = "/"
			if by == "" {
				by = ownProcess
			}
			continue
		case name == "cwd" && (in[1] == "self" || in[1] == "thread-self"):
			at, by, rest = "/", ownProcess, append(strings.Split(cwd, "/"), rest...)
			continue
		case name == "cwd":
			return led{path.Join(rest...), otherProcess}
		case name == "fd" || name == "exe" || name == "map_files":
			return led{}
		}
		next := join(at, name)
		to, ok := g.seen.Readlink(next)
		if !ok && g.seen.Missing(next) && !strings.HasPrefix(next, "/proc/") && !slices.Contains(rest, "..") {
			// Nothing exists below a missing folder. A script that an agent passes to a shell is a word with hundreds of slashes, and may
			// spell 64 paths. Checking each part of them takes a second.
			return led{path.Join(next, path.Join(rest...)), by}
		}
		if !ok {
			at = next
			continue
		}
		if links++; links > maxFollowed {
			return led{}
		}
		if path.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return led{at, by}
}

// spelled joins a path to a folder without cleaning it, so that it leads through everything that it names.
func spelled(file, dir string) string {
	if path.IsAbs(file) {
		return file
	}
	return join(dir, file)
}

// resolve joins a path to a folder. Unlike spelled it cleans the path, unless the path leads through the folder of the process itself in
// /proc.
func (g Sight) resolve(file, dir string) string {
	if led := g.resolveLinks(spelled(file, dir), dir); led.by == ownProcess {
		return led.path
	}
	if path.IsAbs(file) {
		return file
	}
	return path.Join(dir, file)
}

// checkOtherProcess marks a command as unclear if a word leads through the directory of another process, whose location is unknown.
func (k *keyReading) checkOtherProcess(word string, in place) {
	if len(k.g.keyFiles()) == 0 {
		return
	}
	for i, file := range valuesOf(word) {
		if file == "" || k.unclear || i >= maxWords {
			return
		}
		if to := k.g.resolveLinks(spelled(file, in.real), in.real); to.by == otherProcess {
			k.unclear = to.path == "" || k.mayBeKey(string(anything)+"/"+to.path, in)
		}
	}
}
