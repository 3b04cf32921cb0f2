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
	// maxFollowed bounds the links on the way of a path.
	maxFollowed = 40
)

// led is where a path leads for a process.
type led struct {
	// path is where, without links; behind another process's directory, what is below that. Empty: not known.
	path string
	// by is whose folder in /proc it goes through; empty: nobody's.
	by string
}

var processFolder = lazyregexp.New(`^/proc/(self|thread-self|[0-9]+)(/task/[0-9]+)?$`)

// ledFrom is where an absolute path leads for a process that runs in a folder. In /proc, "self" is that process, not this
// one. A path that does not exist leads where it reads.
func (g Sight) ledFrom(file, cwd string) led {
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
			// Nothing is below what is not there. A script that an agent hands to a shell is a word with hundreds of
			// slashes, and may spell 64 paths: to look for each part of them takes a second.
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

// spelled is a path from a folder. Unlike a clean one it goes through all that it names.
func spelled(file, dir string) string {
	if path.IsAbs(file) {
		return file
	}
	return join(dir, file)
}

// reached is what a path is from a folder. Unlike spelled it is clean, unless it goes through the folder of this process in
// /proc.
func (g Sight) reached(file, dir string) string {
	if led := g.ledFrom(spelled(file, dir), dir); led.by == ownProcess {
		return led.path
	}
	if path.IsAbs(file) {
		return file
	}
	return path.Join(dir, file)
}

// elsewhere notes words that go through the directory of another process, wherever that is.
func (k *keyReading) elsewhere(word string, in place) {
	if len(k.g.keyFiles()) == 0 {
		return
	}
	for i, file := range valuesOf(word) {
		if file == "" || k.unclear || i >= maxWords {
			return
		}
		if to := k.g.ledFrom(spelled(file, in.real), in.real); to.by == otherProcess {
			k.unclear = to.path == "" || k.mayBeKey(string(anything)+"/"+to.path, in)
		}
	}
}
