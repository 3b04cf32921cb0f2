package policy

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/acphost/acphost/internal/facts"
	"github.com/acphost/acphost/internal/shell"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// exampleRoot is the root of the session in a rule's tests.
const exampleRoot = "/workspace"

// examples runs a rule's tests.
func (c *compiler) examples(at string, r *rule, tests *permissionv1.RuleTests) {
	run := func(field string, list []*permissionv1.RuleTest, want bool) {
		for i, test := range list {
			at := fmt.Sprintf("%s.tests.%s[%d]", at, field, i)
			a, err := c.example(test)
			if err != nil {
				c.fail(at, "%v", err)
				continue
			}
			c.tests++
			matched, why := r.explain(newAction(a))
			c.expect(matched == yes || !want, at, "expected that rule %s matches, and it does not: %s", r.id, why)
			c.expect(matched != yes || want, at, "expected that rule %s does not match, and it does: %s", r.id, why)
		}
	}
	run("match", tests.GetMatch(), true)
	run("not_match", tests.GetNotMatch(), false)
}

func (c *compiler) example(t *permissionv1.RuleTest) (*permissionv1.Action, error) {
	short := t.GetCommand() != "" || t.GetPath() != "" || t.GetResolvedPath() != "" || t.GetOn() != "" || t.GetAgent() != "" || t.GetMode() != "" || t.GetTool() != "" || t.GetWorkspacePrograms() || t.GetHost() != "" || len(t.GetAddresses()) > 0 || len(t.GetWalls()) > 0
	switch {
	case t.GetAction() != nil && short:
		return nil, fmt.Errorf("expected action alone, got other fields beside it")
	case t.GetAction() != nil:
		return t.GetAction(), nil
	case !short:
		return nil, fmt.Errorf("expected a command, a path, a host, a kind or an action, got none")
	case t.GetWorkspacePrograms() && t.GetCommand() == "":
		return nil, fmt.Errorf("expected a command beside workspace_programs, got none")
	case len(t.GetAddresses()) > 0 && t.GetHost() == "":
		return nil, fmt.Errorf("expected a host beside addresses, got none")
	case t.GetResolvedPath() != "" && t.GetPath() == "":
		return nil, fmt.Errorf("expected a path beside resolved_path, got none")
	}
	kind := "" // for an action that names only the agent or the mode
	switch {
	case t.GetCommand() != "":
		kind = "terminal.create"
	case t.GetPath() != "":
		kind = "fs.read"
	case t.GetHost() != "":
		kind = "net.connect"
	case t.GetTool() != "":
		kind = "tool.other"
	}
	a := &permissionv1.Action{
		Kind: cmp.Or(t.GetOn(), kind), Agent: cmp.Or(t.GetAgent(), "agent"), Mode: t.GetMode(), Tool: t.GetTool(),
		Roots: []string{exampleRoot}, ResolvedRoots: []string{exampleRoot}, Door: permissionv1.Door_DOOR_CALL,
	}
	if t.GetHost() != "" {
		var err error
		if a.Endpoint, err = exampleHost(t); err != nil {
			return nil, err
		}
	}
	if t.GetPath() != "" {
		asked, err := c.examplePath(t.GetPath())
		if err != nil {
			return nil, err
		}
		real := path.Clean(asked)
		if t.GetResolvedPath() != "" {
			if real, err = c.examplePath(t.GetResolvedPath()); err != nil {
				return nil, err
			}
		}
		access := permissionv1.Access_ACCESS_UNSPECIFIED
		if onlyReads(a.GetKind()) || namesPaths(a.GetKind()) {
			access = accessOf(onlyReads(a.GetKind()))
		}
		touch(a, asked, real, access)
	}
	if t.GetCommand() != "" {
		exampleCommand(a, t.GetCommand(), t.GetOn() == processStart)
		if t.GetWorkspacePrograms() {
			ofWorkspace(a)
		}
	}
	return a, exampleProcess(a, t)
}

// exampleProcess sets the walls of a test, and makes its action one of a process if the test is about that.
func exampleProcess(a *permissionv1.Action, t *permissionv1.RuleTest) error {
	for _, name := range t.GetWalls() {
		wall, known := wallNames[name]
		if !known {
			return fmt.Errorf("expected files, reads or network in walls, got %q", name)
		}
		a.Walls = append(a.Walls, wall)
	}
	kind, ofProcess := map[string]string{processStart: "terminal.create", processRead: "fs.read", processWrite: "fs.write", processGit: "fs.write"}[t.GetOn()]
	if !ofProcess {
		return nil
	}
	a.Door, a.Kind = permissionv1.Door_DOOR_KERNEL, kind
	if len(t.GetWalls()) == 0 {
		a.Walls = []permissionv1.Wall{permissionv1.Wall_WALL_FILES, permissionv1.Wall_WALL_READS, permissionv1.Wall_WALL_NETWORK}
	}
	for _, p := range a.GetPaths() {
		p.GitState = t.GetOn() == processGit
		if kind == "fs.write" {
			p.Access = permissionv1.Access_ACCESS_WRITE
		}
	}
	return nil
}

func (c *compiler) examplePath(p string) (string, error) {
	switch {
	case p == "${root}" || strings.HasPrefix(p, "${root}/"):
		return exampleRoot + p[len("${root}"):], nil
	case (p == "~" || strings.HasPrefix(p, "~/")) && len(c.places.homes) > 0:
		return c.places.homes[0] + p[1:], nil
	case p == "~" || strings.HasPrefix(p, "~/"):
		return "", fmt.Errorf("expected a path without ~, since the home directory is not known (set HOME), got %q", p)
	case path.IsAbs(p):
		return p, nil
	}
	return "", fmt.Errorf("expected an absolute path, or one with ${root} or ~ in front, got %q", p)
}

// exampleCommand parses a line as if it ran in the root, without symbolic links. start: the line is a program that a
// process starts, with its arguments.
func exampleCommand(a *permissionv1.Action, line string, start bool) {
	command := &permissionv1.Command{Text: line}
	if words, plain := shell.Words(line); start && plain {
		command.Argv = words
		command.SubCommands, command.Unparsed = shell.Here{}.Program(words)
	} else {
		command.SubCommands, command.Unparsed = shell.Parse(line)
	}
	a.Command = command
	for _, sub := range command.GetSubCommands() {
		dir := exampleRoot
		if sub.GetCwd() != "" {
			if dir = sub.GetCwd(); !path.IsAbs(dir) {
				dir = path.Join(exampleRoot, dir)
			}
			sub.Cwd = dir
		}
		Ordinary(sub)
		sub.Facts = exampleFacts(sub, dir)
		for _, r := range sub.GetRedirections() {
			file := r.GetPath()
			if r.GetDynamic() || file == "" || file == "/dev/null" {
				continue
			}
			if !path.IsAbs(file) {
				if sub.GetCwdUnknown() {
					a.Unparsed = "it is not known where the command redirects to"
					continue
				}
				file = dir + "/" + file
			}
			r.ResolvedPath = path.Clean(file)
			touch(a, file, r.ResolvedPath, accessOf(r.GetOperator() == "<"))
		}
	}
}

// exampleFacts returns the facts of a simple command in a folder without symbolic links, and in which no operand is a
// folder.
func exampleFacts(sub *permissionv1.SubCommand, dir string) *permissionv1.Facts {
	if sub.GetCwdUnknown() {
		dir = ""
	}
	return facts.Of(sub, dir, &facts.Disk{Roots: []string{exampleRoot}})
}

// Ordinary sets a simple command's programs to the system's, and its git repository to one at a root that names no
// programs.
func Ordinary(sub *permissionv1.SubCommand) {
	system := func(name string) *acpv1.Program {
		file := path.Join("/usr/bin", path.Base(name))
		return &acpv1.Program{Path: file, ResolvedPath: file}
	}
	sub.WrapperPrograms = nil
	for _, w := range sub.GetWrappers() {
		name, _, _ := strings.Cut(w, " ")
		sub.WrapperPrograms = append(sub.WrapperPrograms, system(name))
	}
	if argv := sub.GetArgv(); len(argv) > 0 {
		sub.Program = system(argv[0])
		if path.Base(argv[0]) == "git" {
			sub.Repository = &acpv1.Repository{GitDir: exampleRoot + "/.git", AtRoot: true}
		}
	}
}

// ofWorkspace moves the programs of a command into the root; those of wrappers stay the system's.
func ofWorkspace(a *permissionv1.Action) {
	for _, sub := range a.GetCommand().GetSubCommands() {
		if p := sub.GetProgram(); p != nil {
			p.Path = path.Join(exampleRoot, "bin", path.Base(p.GetPath()))
			p.ResolvedPath, p.InsideRoots = p.GetPath(), true
		}
	}
}

func accessOf(reads bool) permissionv1.Access {
	if reads {
		return permissionv1.Access_ACCESS_READ
	}
	return permissionv1.Access_ACCESS_WRITE
}

func touch(a *permissionv1.Action, asked, real string, access permissionv1.Access) {
	_, askedIn := tailBelow(exampleRoot, path.Clean(asked))
	_, realIn := tailBelow(exampleRoot, path.Clean(real))
	a.Paths = append(a.Paths, &permissionv1.PathAccess{Path: asked, ResolvedPath: real, Access: access, InsideRoots: askedIn && realIn})
}
