package corpus

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/facts"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

// fixture is a workspace on disk, with the links that entries of the corpus go through.
type fixture struct {
	ws, outside, home string
}

func newFixture(t testing.TB) fixture {
	t.Helper()
	// The temporary folder may itself be behind a link; the roots are real here.
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := fixture{ws: base + "/ws", outside: base + "/outside", home: base + "/home"}
	for _, dir := range []string{s.ws + "/sub", s.outside, s.home + "/.ssh", s.home + "/x"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{s.ws + "/.env", s.ws + "/main.go", s.ws + "/.environment", s.ws + "/sub/.env",
		s.outside + "/.env", s.outside + "/f", s.home + "/.ssh/id_rsa"} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"innocent": ".env", "innocent2": "innocent", "way-in": "sub", "way-out": s.outside, "home": s.home,
		"link-inside": "main.go", "dangling": s.outside + "/none", "loop": "loop",
	} {
		if err := os.Symlink(to, s.ws+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// surroundings returns the surroundings for the policies of the test.
func (s fixture) surroundings() policy.Surroundings {
	return policy.Surroundings{Home: s.home, Real: filepath.EvalSymlinks}
}

// expand replaces the names of the fixture's folders in text.
func (s fixture) expand(text string) string {
	return strings.NewReplacer("${ws}", s.ws, "${outside}", s.outside, "${home}", s.home).Replace(text)
}

// place returns where a path leads, as fsd does: a path that does not exist leads to a name below the nearest folder
// that exists. inside: both spellings lie inside the root.
func (s fixture) place(file string) (resolved string, inside bool) {
	if !path.IsAbs(file) || strings.ContainsRune(file, 0) {
		return "", false
	}
	resolved, ok := follow(file)
	if !ok {
		return "", false
	}
	return resolved, s.holds(path.Clean(file)) && s.holds(resolved)
}

// follow resolves links component by component, so that a ".." behind a link leaves the folder that the link leads to.
func follow(file string) (string, bool) {
	resolved := "/"
	rest := strings.Split(file, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			resolved = path.Dir(resolved)
			continue
		}
		next := path.Join(resolved, name)
		target, err := os.Readlink(next)
		switch {
		case err == nil:
			if links++; links > 40 {
				return "", false
			}
			if path.IsAbs(target) {
				resolved = "/"
			}
			rest = append(strings.Split(target, "/"), rest...)
		case errors.Is(err, fs.ErrPermission):
			return "", false
		default:
			resolved = next
		}
	}
	return resolved, true
}

func (s fixture) holds(file string) bool { return file == s.ws || strings.HasPrefix(file, s.ws+"/") }

// action returns an action whose session works in the fixture.
func (s fixture) action(kind string) *permissionv1.Action {
	return &permissionv1.Action{
		Kind: kind, Agent: "agent", SessionId: "s", Door: permissionv1.Door_DOOR_CALL,
		Roots: []string{s.ws}, ResolvedRoots: []string{s.ws},
	}
}

// run is the action of running a line, or an argv where there is one.
func (s fixture) run(line string, argv, env []string, cwd string) *permissionv1.Action {
	a := s.action("terminal.create")
	c := &permissionv1.Command{Env: env, Cwd: cwd}
	if len(argv) > 0 {
		c.Argv, c.Text = argv, shell.Quote(argv)
		c.SubCommands, c.Unparsed = shell.FromArgv(argv)
	} else {
		c.Text = line
		c.SubCommands, c.Unparsed = shell.Parse(line)
	}
	if !utf8.ValidString(c.Text) {
		c.Text = strings.ToValidUTF8(c.Text, "\uFFFD")
	}
	if len(c.SubCommands) == 0 && c.Unparsed == "" {
		c.Unparsed = "there is no command in it"
	}
	if path.IsAbs(c.GetCwd()) {
		if resolved, _ := s.place(c.GetCwd()); resolved != "" && resolved != path.Clean(c.GetCwd()) {
			c.Cwd = resolved
		}
	}
	a.Command = c
	for _, sub := range c.GetSubCommands() {
		policy.Ordinary(sub)
		s.runsIn(c, sub)
		sub.Facts = facts.Of(sub, s.folder(c, sub), &facts.Disk{Look: s.look})
		s.redirections(a, sub)
	}
	s.words(c)
	return a
}

// folder is where a part of a line runs; empty if that is not known.
func (s fixture) folder(c *permissionv1.Command, sub *permissionv1.SubCommand) string {
	dir := cmp.Or(sub.GetCwd(), c.GetCwd(), s.ws)
	if sub.GetCwdUnknown() || !path.IsAbs(dir) {
		return ""
	}
	return dir
}

func (s fixture) look(file string) facts.Place {
	resolved, inside := s.place(file)
	info, err := os.Stat(file)
	return facts.Place{Resolved: resolved, Inside: inside, NoFolder: err == nil && !info.IsDir() || errors.Is(err, fs.ErrNotExist)}
}

// words notes where the words of a command lead, where that is elsewhere than they read.
func (s fixture) words(c *permissionv1.Command) {
	const most = 256
	looked := 0
	for _, sub := range c.GetSubCommands() {
		if sub.GetDynamic() && len(sub.GetDynamicWords()) == 0 {
			continue
		}
		dir, operands := sub.GetCwd(), false
		if dir == "" {
			if dir = c.GetCwd(); dir == "" {
				dir = s.ws
			}
		}
		for i, word := range sub.GetArgv() {
			if i == 0 && !strings.Contains(word, "/") || slices.Contains(sub.GetDynamicWords(), uint32(i)) {
				continue
			}
			spelled, _ := shell.Spellings(word, operands)
			operands = operands || i > 0 && word == "--"
			if len(spelled) == 0 {
				continue
			}
			if looked++; looked > most || len(word) > 4096 {
				c.Unparsed = "more words than are looked at"
				return
			}
			for _, file := range spelled {
				if !path.IsAbs(file) {
					if sub.GetCwdUnknown() || !path.IsAbs(dir) {
						continue
					}
					file = dir + "/" + file
				}
				if resolved, inside := s.place(file); resolved != "" && resolved != path.Clean(file) {
					sub.ResolvedWords = append(sub.ResolvedWords,
						&permissionv1.ResolvedWord{Word: uint32(i), ResolvedPath: resolved, InsideRoots: inside})
				}
			}
		}
	}
}

// runsIn makes the folder of a part of a line absolute.
func (s fixture) runsIn(c *permissionv1.Command, sub *permissionv1.SubCommand) {
	dir := sub.GetCwd()
	if dir == "" || sub.GetCwdUnknown() {
		return
	}
	if !path.IsAbs(dir) {
		base := c.GetCwd()
		if base == "" {
			base = s.ws
		}
		dir = base + "/" + dir
	}
	if resolved, _ := s.place(dir); resolved != "" {
		dir = resolved
	}
	sub.Cwd = dir
}

// redirections adds the files that a part of a line reads and writes through its shell.
func (s fixture) redirections(a *permissionv1.Action, sub *permissionv1.SubCommand) {
	for _, r := range sub.GetRedirections() {
		file := r.GetPath()
		switch {
		case r.GetDynamic() || file == "" || file == "/dev/null":
			continue
		case path.IsAbs(file):
		case sub.GetCwdUnknown():
			a.Unparsed = "the command changes its directory, so where it redirects to is not certain"
			continue
		case sub.GetCwd() != "":
			file = sub.GetCwd() + "/" + file
		case a.GetCommand().GetCwd() != "":
			file = a.GetCommand().GetCwd() + "/" + file
		default:
			file = s.ws + "/" + file
		}
		access := permissionv1.Access_ACCESS_WRITE
		if r.GetOperator() == "<" {
			access = permissionv1.Access_ACCESS_READ
		}
		r.ResolvedPath = s.touch(a, file, access)
	}
}

// touch adds a path to an action.
func (s fixture) touch(a *permissionv1.Action, file string, access permissionv1.Access) string {
	if strings.ContainsRune(file, 0) || !utf8.ValidString(file) {
		a.Unparsed = "a path has a NUL in it, or is not UTF-8"
		return ""
	}
	resolved, inside := s.place(file)
	a.Paths = append(a.Paths, &permissionv1.PathAccess{Path: file, ResolvedPath: resolved, Access: access, InsideRoots: inside})
	return resolved
}

// use is the action of a tool that works on a path.
func (s fixture) use(kind, file string) *permissionv1.Action {
	a := s.action(kind)
	if file == "" || file[0] != '/' {
		a.Unparsed = "the path is not absolute"
	}
	if file == "" {
		return a
	}
	access := permissionv1.Access_ACCESS_WRITE
	switch kind {
	case "fs.read", "fs.list", "tool.read", "tool.search":
		access = permissionv1.Access_ACCESS_READ
	}
	s.touch(a, file, access)
	return a
}
