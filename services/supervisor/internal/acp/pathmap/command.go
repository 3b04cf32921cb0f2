package pathmap

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/transcode"
)

// CheckCommand returns an error if a command names a file by a path that is different in the sidecar. Only the program
// knows which of its words are paths, so acphost does not translate them: the command would use another file than the
// decision was about. The error contains the word and the remedy. Paths below the working directory need no
// translation.
//
// Words are parsed as a shell and programs do: without quotes, after "=" and in lists, as the file of a URL, and in
// code ("python -c"). Values that are only known at run time, such as variables, or the folder after "cd ..", are
// unknown here and to the policy.
func (m *Maps) CheckCommand(c transcode.Command) error {
	at := m.from(c.Directory)
	for i, value := range c.Variables {
		if err := m.checkText(at, value, fmt.Sprintf("environment variable %d", i+1)); err != nil {
			return err
		}
	}
	subs, unparsed := parsed(c)
	for _, sub := range subs {
		if err := m.checkSimple(at, sub); err != nil {
			return err
		}
	}
	// Check the raw text, too: comments, here-documents and parts that could not be parsed. Only absolute paths,
	// because the folder is unknown.
	for i, text := range append([]string{c.Command}, c.Args...) {
		name := "the command"
		if i > 0 {
			name = fmt.Sprintf("argument %d", i)
		}
		nowhere := folder{}
		if unparsed != "" {
			nowhere = at
		}
		if err := m.checkText(nowhere, text, name); err != nil {
			return err
		}
	}
	return nil
}

func parsed(c transcode.Command) (subs []*permissionv1.SubCommand, unparsed string) {
	if len(c.Args) > 0 {
		return shell.FromArgv(append([]string{c.Command}, c.Args...))
	}
	return shell.Parse(c.Command)
}

// folder is the working directory of a command. The zero value means that it is unknown.
type folder struct {
	path string // absolute and clean, of the client
	in   *Map   // the map that contains it; nil: none
}

// from returns the folder of a path.
func (m *Maps) from(dir string) folder {
	if !path.IsAbs(dir) {
		return folder{}
	}
	f := folder{path: path.Clean(dir)}
	for i := range m.maps {
		if paths.Below(m.maps[i].Here, f.path) {
			f.in = &m.maps[i]
		}
	}
	return f
}

// checkSimple checks one command of a line.
func (m *Maps) checkSimple(at folder, sub *permissionv1.SubCommand) error {
	const word, option = true, false
	switch cwd := sub.GetCwd(); {
	case sub.GetCwdUnknown():
		at = folder{}
	case cwd != "":
		if err := m.checkPath(at, cwd, "the folder that it changes to"); err != nil {
			return err
		}
		if !path.IsAbs(cwd) {
			cwd = path.Join(at.path, cwd)
		}
		at = m.from(cwd)
	}
	check := func(text, name string, operand bool) error {
		spelled, _ := shell.Spellings(text, operand)
		for _, p := range spelled {
			if err := m.checkPath(at, p, name); err != nil {
				return err
			}
		}
		return m.checkText(at, text, name)
	}
	for _, arg := range sub.GetArgv() {
		name := "the word " + shown(arg)
		if err := check(arg, name, word); err != nil {
			return err
		}
		if err := check(arg, name, option); err != nil {
			return err
		}
	}
	for _, r := range sub.GetRedirections() {
		if err := check(r.GetPath(), "the redirection to "+shown(r.GetPath()), word); err != nil {
			return err
		}
	}
	for _, a := range append(slices.Clone(sub.GetAssignments()), sub.GetWrappers()...) {
		if err := check(a, shown(a), word); err != nil {
			return err
		}
	}
	return nil
}

// checkText checks the paths in a text that may be code: the parts between spaces, quotes and punctuation.
func (m *Maps) checkText(at folder, text, name string) error {
	if !strings.Contains(text, "/") {
		return m.checkPath(at, text, name)
	}
	for piece := range strings.FieldsFuncSeq(text, separates) {
		if slash := strings.IndexByte(piece, '/'); slash > 0 && piece[0] == '-' { // -I/usr/include
			piece = piece[slash:]
		}
		if err := m.checkPath(at, piece, name); err != nil {
			return err
		}
	}
	return nil
}

// separates reports whether a path in code can end before a character.
func separates(c rune) bool {
	return unicode.IsSpace(c) || unicode.IsControl(c) || strings.ContainsRune("\"'`=:,;|&<>()[]{}@#$!?*\\", c)
}

// checkPath checks a word that may be a path.
func (m *Maps) checkPath(at folder, name, word string) error {
	var target string
	switch {
	case path.IsAbs(name):
		target = path.Clean(name)
	case at.path == "":
		return nil
	case at.in != nil:
		if goesUp(name) && climbs(strings.TrimPrefix(at.path, at.in.Here)+"/"+name) {
			return fmt.Errorf("%s goes up (..) out of %s, which is %s in the sidecar, where another folder lies above it: "+
				"name files in %s by paths relative to the working directory", word, at.in.Here, at.in.There, at.in.Here)
		}
		return nil
	default:
		target = path.Join(at.path, name)
	}
	for _, f := range m.maps {
		switch {
		case below(f.Here, target):
			return fmt.Errorf("%s names %s, but the sidecar sees %s as %s, and commands are not translated: "+
				"name the file by a path relative to the working directory, which is translated", word, shown(target), f.Here, f.There)
		case below(f.There, target):
			return fmt.Errorf("%s names %s, which is no path of this session: "+
				"name files in %s by paths relative to the working directory", word, shown(target), f.Here)
		}
	}
	return nil
}

func goesUp(name string) bool { return slices.Contains(strings.Split(name, "/"), "..") }
