package shell

import (
	"os"
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/wordset"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// place is a working directory, as far as a line tells.
type place struct {
	// path is absolute, or relative to where the line began. Empty: there.
	path string
	// unknown: the line may have gone anywhere.
	unknown bool
	// gone: the shell has ended, nothing runs here.
	gone bool
}

var elsewhere = place{unknown: true}

// in is where a program ends up that goes from p to dir by the system's own rules.
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
	// Not cleaned: behind a symbolic link ".." is another folder.
	return place{path: strings.TrimSuffix(p.path, "/") + "/" + dir.text}
}

// cd is where a shell's cd ends up. Behind ".." shells go where the folder's name says, and where the system says if
// that fails. That is certain only if both are the same: ".." leaves a folder that is no symbolic link.
func (r *reading) cd(dir word) place {
	switch {
	case dir.text == "" || dir.text == "-":
		return elsewhere
	case slices.Contains(strings.Split(dir.text, "/"), ".."):
		return r.up(dir)
	}
	return r.clean(r.dir.in(dir))
}

// clean is a place by its shortest name.
func (r *reading) clean(to place) place {
	to.path = path.Clean(to.path)
	if to.path == "." || r.disk != nil && to.path == r.disk.dir {
		to.path = ""
	}
	return to
}

// up is cd for an operand with ".." in it. It is certain only while ".." leaves folders that lie below the one where the line
// began, and that are there and no links, with nothing in the line that may have changed them.
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

// holdsFolder reports whether a place is a folder below the one that is known, by its own name and not by a link.
func (d *disk) holdsFolder(at place) bool {
	folder, ok := d.absolute(at, "")
	if !ok || !d.look() {
		return false
	}
	info, err := os.Lstat(path.Clean(folder))
	return err == nil && info.IsDir()
}

// either is where a line is that may have come one way or the other.
func either(a, b place) place {
	switch {
	case a.gone:
		return b
	case b.gone || a == b:
		return a
	}
	return elsewhere
}

// inShell reports whether c is run by the shell that reads the line, so that it can change the shell itself.
func (r *reading) inShell(c call) bool {
	return !slices.ContainsFunc(c.wrappers[min(r.base, len(c.wrappers)):], func(by string) bool { return !ownShell[by] })
}

// ownShell are wrappers with which the shell itself runs what they wrap.
var ownShell = wordset.Of("eval command builtin time noglob nocorrect trap")

// at is where c runs.
func (r *reading) at(c call) place {
	if c.at != nil {
		return *c.at
	}
	return r.dir
}

// ran notes what a command has done to the working directory.
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
		if name != "chdir" { // which not every shell has
			if dir, ok := target(c.args[1:]); ok {
				r.ok = r.cd(dir)
			}
		}
	case "popd":
		r.moves++
		r.ok = elsewhere
	case "shopt":
		// Some of these let cd guess.
		r.adrift = r.adrift || len(c.args) > 1
	case "exit":
		if len(c.wrappers) <= r.base && !c.dynamic && (len(c.args) == 1 || (len(c.args) == 2 && isNumber(c.args[1]))) {
			place := place{gone: true}
			r.ok, r.fail = place, place
		}
	}
}

// astray notes that the shell may have gone anywhere.
func (r *reading) astray() {
	r.moves++
	r.ok, r.fail = elsewhere, elsewhere
}

// target is the operand of cd and pushd; false if it is not plain where they go.
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

// apart reads what runs in a shell of its own, at some place: it changes nothing for what comes after.
func (r *reading) apart(at place, read func()) {
	dir, base, moves := r.dir, r.base, r.moves
	r.dir = at
	read()
	r.dir, r.base, r.moves = dir, base, moves
	r.ok, r.fail = dir, dir
}

// again reads what may run more than once, or in parts. If it goes anywhere it is not certain where any of it runs.
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

// guides are builtins and keywords that decide where a line goes.
var guides = []string{"cd", "chdir", "pushd", "popd", "exit", "command", "builtin", "eval", "shopt"}

// settle takes back what is said of directories if something in the line changes what cd and its like do.
func (r *reading) settle() {
	redefined := func(name string) bool { return r.declared[name] }
	if r.adrift || slices.ContainsFunc(guides, redefined) || r.moved && slices.ContainsFunc(r.subs, misleads) {
		r.lose(r.subs)
	}
}

// misleads reports whether a simple command may set what cd goes by.
func misleads(sub *permissionv1.SubCommand) bool {
	return slices.ContainsFunc(sub.GetAssignments(), func(entry string) bool { return strings.HasPrefix(entry, "PWD=") }) ||
		strings.Contains(strings.Join(slices.Concat(sub.GetAssignments(), sub.GetArgv()), " "), "CDPATH")
}

// movesTo is where a program runs that takes "-C DIR" as make does: any number of times, each from the one before.
func movesTo(from place, args []word) place {
	value := false // the word before may take this one for its value
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
