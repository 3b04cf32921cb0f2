package shell

import (
	"os"
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/wordset"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// place is a working directory, as far as a line determines it.
type place struct {
	// path is absolute, or relative to the starting directory of the line. Empty: the starting directory.
	path string
	// unknown: the line may be in any directory.
	unknown bool
	// gone: the shell has exited, so nothing runs here.
	gone bool
}

var elsewhere = place{unknown: true}

// in returns the directory of a program that changes from p to dir with the system call chdir.
func (p place) in(dir word) place {
	switch {
	case p.unknown || p.gone:
		return p
	case dir.dynamic || strings.HasPrefix(dir.text, "~"):
		return elsewhere
	case dir.text == "":
		return p
	case path.IsAbs(dir.text):
		return place{path: dir.text}
	case p.path == "":
		return place{path: dir.text}
	}
	// Not cleaned: after a symbolic link, ".." is another folder.
	return place{path: strings.TrimSuffix(p.path, "/") + "/" + dir.text}
}

// cd returns the directory after a shell's cd. For "..", shells use the parent by name, and the system's parent if that
// fails. The result is certain only if both are the same: if ".." leaves a folder that is not a symbolic link.
func (r *reading) cd(dir word) place {
	switch {
	case dir.text == "" || dir.text == "-":
		return elsewhere
	case slices.Contains(strings.Split(dir.text, "/"), ".."):
		return r.up(dir)
	}
	return r.clean(r.dir.in(dir))
}

// clean returns a place with its shortest name.
func (r *reading) clean(to place) place {
	to.path = path.Clean(to.path)
	if to.path == "." || r.disk != nil && to.path == r.disk.dir {
		to.path = ""
	}
	return to
}

// up is cd for an operand with "..". It is certain only while ".." leaves existing folders, not links, below the
// starting directory of the line, and no command of the line may have changed them.
func (r *reading) up(dir word) place {
	if r.disk == nil || r.stirred > 0 || dir.dynamic || strings.HasPrefix(dir.text, "~") {
		return elsewhere
	}
	at := r.dir
	if path.IsAbs(dir.text) {
		at = place{path: "/"}
	}
	for name := range strings.SplitSeq(dir.text, "/") {
		switch name {
		case "", ".":
		case "..":
			if at = r.clean(at); at.path == "" || !r.disk.holdsFolder(at) {
				return elsewhere
			}
			at.path = path.Dir(at.path)
		default:
			at = at.in(word{text: name})
		}
	}
	return r.clean(at)
}

// holdsFolder reports whether a place is a folder below the known folder, and not a link.
func (d *disk) holdsFolder(at place) bool {
	folder, ok := d.absolute(at, "")
	if !ok || !d.countLookup() {
		return false
	}
	info, err := os.Lstat(path.Clean(folder))
	return err == nil && info.IsDir()
}

// either returns the place after two alternative paths of execution.
func either(a, b place) place {
	switch {
	case a.gone:
		return b
	case b.gone || a == b:
		return a
	}
	return elsewhere
}

// inShell reports whether c runs in the shell that reads the line, so that it can change the shell itself.
func (r *reading) inShell(c call) bool {
	return !slices.ContainsFunc(c.wrappers[min(r.base, len(c.wrappers)):], func(by string) bool { return !ownShell[by] })
}

// ownShell are wrappers whose wrapped command runs in the shell itself.
var ownShell = wordset.Of("eval command builtin time noglob nocorrect trap")

// at returns the directory in which c runs.
func (r *reading) at(c call) place {
	if c.at != nil {
		return *c.at
	}
	return r.dir
}

// ran records the effect of a command on the working directory.
func (r *reading) ran(c call) {
	r.ok, r.fail = r.dir, r.dir
	if len(c.args) == 0 || !r.inShell(c) {
		return
	}
	if c.args[0].dynamic {
		r.astray() // it may be cd
		return
	}
	switch name := c.args[0].text; name {
	case "cd", "chdir", "pushd":
		r.moves++
		r.ok = elsewhere
		if name != "chdir" { // not every shell has it
			if dir, ok := target(c.args[1:]); ok {
				r.ok = r.cd(dir)
			}
		}
	case "popd":
		r.moves++
		r.ok = elsewhere
	case "shopt":
		// Some of these make cd guess.
		r.adrift = r.adrift || len(c.args) > 1
	case "exit":
		if len(c.wrappers) <= r.base && !c.dynamic && (len(c.args) == 1 || (len(c.args) == 2 && isNumber(c.args[1]))) {
			place := place{gone: true}
			r.ok, r.fail = place, place
		}
	}
}

// astray records that the shell may be in any directory.
func (r *reading) astray() {
	r.moves++
	r.ok, r.fail = elsewhere, elsewhere
}

// target returns the operand of cd and pushd; false if the target is uncertain.
func target(args []word) (word, bool) {
	options := true
	for len(args) > 0 && options && !args[0].dynamic && strings.HasPrefix(args[0].text, "-") {
		switch args[0].text {
		case "-L", "-P":
		case "--":
			options = false
		default:
			return word{}, false
		}
		args = args[1:]
	}
	if len(args) != 1 || strings.HasPrefix(args[0].text, "+") {
		return word{}, false
	}
	return args[0], true
}

func isNumber(w word) bool {
	return !w.dynamic && w.text != "" && len(w.text) < 4 && strings.Trim(w.text, "0123456789") == ""
}

// apart reads commands of a subshell, at some place: they do not affect later commands.
func (r *reading) apart(at place, read func()) {
	dir, base, moves := r.dir, r.base, r.moves
	r.dir = at
	read()
	r.dir, r.base, r.moves = dir, base, moves
	r.ok, r.fail = dir, dir
}

// again reads commands that may run more than once, or partly. If they change the directory, the directory of all of
// them is uncertain.
func (r *reading) again(read func()) {
	in, moves, start := r.dir, r.moves, len(r.subs)
	expanded, stirred := r.expanded, r.stirred
	read()
	r.lost = r.lost || r.expanded != expanded && r.stirred != stirred
	r.dir, r.ok, r.fail = in, in, in
	if r.moves == moves {
		return
	}
	r.ok, r.fail = elsewhere, elsewhere
	r.lose(r.subs[start:])
}

func (r *reading) lose(subs []*permissionv1.SubCommand) {
	r.lost = true
	for _, sub := range subs {
		sub.Cwd, sub.CwdUnknown = "", true
	}
}

// guides are builtins and keywords that decide where a line continues.
var guides = []string{"cd", "chdir", "pushd", "popd", "exit", "command", "builtin", "eval", "shopt"}

// settle removes the known directories if something in the line changes the behavior of cd and similar builtins.
func (r *reading) settle() {
	redefined := func(name string) bool { return r.declared[name] }
	if r.adrift || slices.ContainsFunc(guides, redefined) || r.moved && slices.ContainsFunc(r.subs, misleads) {
		r.lose(r.subs)
	}
}

// misleads reports whether a simple command may set variables that cd uses.
func misleads(sub *permissionv1.SubCommand) bool {
	return slices.ContainsFunc(sub.GetAssignments(), func(entry string) bool { return strings.HasPrefix(entry, "PWD=") }) ||
		strings.Contains(strings.Join(slices.Concat(sub.GetAssignments(), sub.GetArgv()), " "), "CDPATH")
}

// movesTo returns the directory of a program with options "-C DIR" like those of make: any number, each relative to the
// one before.
func movesTo(from place, args []word) place {
	value := false // this word may be the value of the word before
	for i := 0; i < len(args); i++ {
		text := args[i].text
		name, attached, hasValue := strings.Cut(text, "=")
		switch {
		case args[i].dynamic:
			return elsewhere
		case text == "--":
			return from
		case text == "-C", len(name) > 3 && strings.HasPrefix("--directory", name) && !hasValue:
			if i++; i == len(args) || value {
				return elsewhere
			}
			from, value = from.in(args[i]), false
		case strings.HasPrefix(text, "-C"):
			from = from.in(word{text: text[2:]})
		case len(name) > 3 && strings.HasPrefix("--directory", name):
			from = from.in(word{text: attached})
		case len(text) > 1 && text[0] == '-' && text[1] != '-' && strings.Contains(text, "C"):
			return elsewhere
		default:
			value = strings.HasPrefix(text, "-")
		}
	}
	return from
}
