// Package facts determines the effects of a simple command: the files that it reads and writes, whether it walks
// through folders, runs code, or talks to other machines.
//
// It knows programs from a table, programs.yaml, which lists for each program the options that are known to be harmless
// and the meaning of the operands. A program, an option or an operand that is not in the table makes the command
// unknown: it may do anything. So the table needs no list of dangers. Some programs have small languages of their own
// (awk, jq, sed, find), and some have a special syntax (git, ps, test); Go code in this package parses those, and
// treats a text as harmless only if every part of it is known.
//
// The package does not determine the executable of a name, wrappers ("sudo") and redirections: other fields of
// SubCommand have those. It opens no file, and decides nothing. All functions are safe for concurrent use.
package facts

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/secretfile"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Disk is the known part of the file system on which a command runs.
type Disk struct {
	// Roots are the session's roots, absolute and clean. Only a Disk without Look needs them.
	Roots []string
	// Look resolves an absolute path. The path may contain "..": after a symbolic link, only the file system knows
	// where that leads. nil: paths are judged by their spelling, as if there were no symbolic links and no operand were
	// a folder.
	Look func(path string) Place
	// OneGo reports whether go, run in a folder, is certainly the installed version. nil: always.
	OneGo func(dir string) bool
	// GoModules reports whether all modules are certainly available to go, run in a folder. nil: always.
	GoModules func(dir string) bool
	// Names returns the names of files and folders in a folder and, if above is set, in the folders above it. ok is
	// false if they are unknown. nil: there are none.
	Names func(dir string, above bool) ([]string, bool)
}

// Place is the target of a path.
type Place struct {
	// Resolved is absolute and without symbolic links. Empty if unknown.
	Resolved string
	// Inside reports whether the path as written and its target lie inside the session's roots.
	Inside bool
	// NoFolder reports whether the path certainly does not lead to a folder.
	NoFolder bool
	// Content decides by the file's name and content whether it is a secret. reads: its content is used. nil: unknown.
	Content func(reads bool) secretfile.Verdict
}

// maxFiles is the limit of files of one command, defined by the contract.
const maxFiles = 1000

// Of returns the effects of a simple command. cwd is the absolute directory in which it runs, or "" if it is unknown.
// With a nil disk nothing is known of the file system, so no path is resolved, and none counts as inside the roots.
func Of(sub *permissionv1.SubCommand, cwd string, disk *Disk) *permissionv1.Facts {
	facts := of(sub, cwd, disk)
	if len(sub.GetPossibleWords()) == 0 {
		return facts
	}
	certain := of(shell.WithoutPossible(sub), cwd, disk).GetFiles()
	for _, f := range facts.GetFiles() {
		f.Possible = !slices.ContainsFunc(certain, func(is *permissionv1.FileUse) bool { return proto.Equal(is, f) })
	}
	return facts
}

func of(sub *permissionv1.SubCommand, cwd string, disk *Disk) *permissionv1.Facts {
	c := &command{sub: sub, argv: sub.GetArgv(), cwd: cwd, disk: disk, facts: &permissionv1.Facts{Known: true}}
	for _, entry := range sub.GetAssignments() {
		if name, _, _ := strings.Cut(entry, "="); !shell.HarmlessVariable(entry) && !shell.OwnVariable(strings.TrimSuffix(name, "+")) {
			c.unknown("it is not known what the variable %s changes", strings.TrimSuffix(name, "+"))
		}
	}
	if sub.GetInputDynamic() {
		c.unknown("what it is fed is known only when it runs, and may be a secret")
	}
	if len(c.argv) > 0 {
		c.read()
		// This is certain even if the other effects are unknown.
		named := !c.dynamic(0) || len(sub.GetDynamicWords()) == 0 && !strings.ContainsAny(c.argv[0], "$`*?[{~")
		c.facts.Network = c.facts.Network || named && shell.Contacts(sub.GetArgv())
	}
	return c.facts
}

// command is the state of analysing a simple command.
type command struct {
	sub   *permissionv1.SubCommand
	argv  []string
	cwd   string
	disk  *Disk
	facts *permissionv1.Facts
}

// unknown records why the command may do more than its facts say. The first reason is kept.
func (c *command) unknown(format string, args ...any) {
	if c.facts.Known {
		c.facts.Known = false
		c.facts.Unknown = strings.ToValidUTF8(fmt.Sprintf(format, args...), "\uFFFD")
	}
}

func (c *command) read() {
	program := c.argv[0]
	if c.dynamic(0) {
		c.unknown("it is not known which program runs")
		return
	}
	if !shell.InSystem(program) {
		c.unknown("%s is a program that is named by its path", program)
		return
	}
	name := path.Base(program)
	e, args := entryOf(name, c.argv)
	if e == nil {
		c.unknown("%s is not in the table of programs", name)
		return
	}
	c.facts.RunsCode, c.facts.Network, c.facts.Changes = e.RunsCode, e.Network, e.Changes
	if read := reading(e.By); read != nil {
		read(c, args)
		return
	}
	c.argv = slices.Clone(c.argv)
	for i, word := range c.argv {
		switch {
		case strings.Contains(word, "\x00"):
			c.unknown("%s has a word that no program can be given", e.name)
			return
		case shell.PipedWord(c.sub, i):
			c.argv[i] = pipe
		case c.dynamic(i):
			c.unknown("%s: a word is known only when the command runs", e.name)
			return
		}
	}
	c.arguments(e, args)
}

// pipe is a placeholder for the name of a pipe from another command of the line.
const pipe = "\x00pipe"

// dynamic reports whether word i is known only when the command runs.
func (c *command) dynamic(i int) bool { return shell.DynamicWord(c.sub, i) }

// use is a kind of use of a file.
type use struct {
	write, metadata, recursive, leavesOut, tracked bool
}

// file records that the command uses a file or folder.
func (c *command) file(word string, u use) {
	file, ok := c.absolute(word)
	if !ok {
		return
	}
	at := c.resolve(file)
	if !u.write && !u.metadata && (ofObjects(path.Clean(file), u.recursive) || ofObjects(at.Resolved, u.recursive)) {
		u.recursive, u.tracked, u.leavesOut = true, true, false
	}
	f := &permissionv1.FileUse{
		Path: file, Access: permissionv1.Access_ACCESS_READ, Recursive: u.recursive, MetadataOnly: u.metadata,
		CanLeaveOut: u.recursive && u.leavesOut, Tracked: u.tracked,
	}
	if u.write {
		f.Access = permissionv1.Access_ACCESS_WRITE
	}
	f.ResolvedPath, f.InsideRoots = at.Resolved, at.Inside
	if at.Content != nil {
		reads := !u.write && !u.metadata
		content := at.Content(reads)
		f.Public, f.HoldsPrivateKey = content == secretfile.Public, reads && content == secretfile.HoldsKey
	}
	switch {
	case c.disk == nil:
	case at.Resolved == "":
		c.unknown("it is not known where %s leads", word)
	case special(at.Resolved):
		c.unknown("%s is no ordinary file", word)
	}
	if special(path.Clean(file)) {
		c.unknown("%s is no ordinary file", word)
	}
	for _, have := range c.facts.Files {
		if have.GetPath() == f.GetPath() && have.GetAccess() == f.GetAccess() && have.GetRecursive() == f.GetRecursive() &&
			have.GetMetadataOnly() == f.GetMetadataOnly() && have.GetTracked() == f.GetTracked() {
			return
		}
	}
	if len(c.facts.Files) == maxFiles {
		c.unknown("it uses more than %d files", maxFiles)
		return
	}
	c.facts.Files = append(c.facts.Files, f)
}

// ofObjects reports whether reading a path reads git's objects, which contain the tracked files.
func ofObjects(file string, recursive bool) bool {
	_, inside, ok := strings.Cut(file+"/", "/.git/")
	return ok && (strings.HasPrefix(inside, "objects/") || inside == "" && recursive)
}

// stray records a word that some versions of a program read as a file, if it leads elsewhere than its text: versions
// that, unlike GNU's, accept no options after operands, and versions for which "-" is a file's name.
func (c *command) stray(word string) {
	if c.disk == nil || c.disk.Look == nil || c.cwd == "" || !utf8.ValidString(word) || strings.Contains(word, "\x00") {
		return
	}
	file := paths.Under(c.cwd, word)
	if at := c.resolve(file); !at.Inside || path.Base(at.Resolved) != path.Base(file) {
		c.file(word, use{})
	}
}

// absolute returns the path that a word names.
func (c *command) absolute(word string) (string, bool) {
	switch {
	case strings.Contains(word, "\x00") || !utf8.ValidString(word):
		c.unknown("a file's name cannot be told")
		return "", false
	case path.IsAbs(word):
		if slices.Contains(strings.Split(word, "/"), "..") {
			return word, true
		}
		return path.Clean(word), true
	case c.cwd == "":
		c.unknown("it is not known in which folder it runs")
		c.facts.Files = append(c.facts.Files, &permissionv1.FileUse{})
		return "", false
	}
	return paths.Under(c.cwd, word), true
}

func (c *command) resolve(file string) Place {
	switch {
	case c.disk == nil:
		return Place{}
	case c.disk.Look != nil:
		return c.disk.Look(file)
	}
	clean := path.Clean(file)
	inside := slices.ContainsFunc(c.disk.Roots, func(root string) bool { return paths.Below(path.Clean(root), clean) })
	return Place{Resolved: clean, Inside: inside, NoFolder: true}
}

// special reports whether a path leads to a different file for each process, or is not a file: a device or, for gawk,
// another machine. Reading /dev/null reads nothing.
func special(file string) bool {
	return file != "/dev/null" && (paths.Below("/dev", file) || paths.Below("/proc", file) || strings.HasPrefix(file, "/inet"))
}
