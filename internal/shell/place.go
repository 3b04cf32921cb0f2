package shell

import (
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
// that fails, so it is not certain.
func (p place) cd(dir word) place {
	if dir.text == "" || dir.text == "-" || slices.Contains(strings.Split(dir.text, "/"), "..") {
		return elsewhere
	}
	to := p.in(dir)
	if to.path = path.Clean(to.path); to.path == "." {
		to.path = ""
	}
	return to
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
				if r.ok = r.dir.cd(dir); r.disk != nil && r.ok.path == r.disk.dir {
					r.ok.path = ""
				}
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
