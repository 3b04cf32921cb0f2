package gate

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/shell"
	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// TestLeaveOut_HoldsForQuestions has a policy that asks about a command, with "unattended: allow", and denies a file below the folder
// that the command reads.
func TestLeaveOut_HoldsForQuestions(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".env"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g := gateWith(true, func(context.Context) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: Ask, Rule: "greps", Reason: "Searching.", Grantable: true, Unattended: Allow, LeaveOut: []string{"**/.env"}}, nil
	})
	for _, c := range []struct {
		name       string
		command    string
		unattended permissionv1.Verdict
		reason     string
	}{
		{"the program is told", "grep -r x", Allow, "left out, because the policy forbids it: .env"},
		{"the program cannot be told", "tar c x", Deny, "this command also reads .env"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := g.Decide(t.Context(), walks(c.command, dir))
			if err != nil || d.Verdict != Ask || d.Unattended != c.unattended || d.Grantable != (d.Argv() != nil) || !strings.Contains(d.Reason, c.reason) {
				t.Errorf("got %v, unattended %v, grantable %t: %s (%v), want unattended %v and %q", d.Verdict, d.Unattended, d.Grantable, d.Reason, err, c.unattended, c.reason)
			}
		})
	}
}

// walks is the call of a command that reads everything below a folder.
func walks(command, dir string) Request {
	r := Request{Scope: "1", Turn: 1, Argv: strings.Fields(command), Action: runs(permissionv1.Door_DOOR_CALL, command)}
	r.Action.GetCommand().GetSubCommands()[0].Facts = &permissionv1.Facts{Known: true,
		Files: []*permissionv1.FileUse{{Path: dir, ResolvedPath: dir, Recursive: true}}}
	return r
}

func TestLeaveOut_NotWithVariablesThatChangeOptions(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".env"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g := gateWith(true, func(context.Context) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: Allow, Rule: "greps", LeaveOut: []string{"**/.env"}}, nil
	})
	for variable, want := range map[string]permissionv1.Verdict{"POSIXLY_CORRECT=1": Ask, "GIT_LITERAL_PATHSPECS=": Ask, "CI=1": Allow} {
		r := walks("grep -r x", dir)
		r.Action.GetCommand().Env = []string{variable}
		if d, err := g.Decide(t.Context(), r); err != nil || d.Verdict != want || (d.Argv() != nil) != (want == Allow) {
			t.Errorf("%s: got %v, %q (%v), want %v", variable, d.Verdict, d.Argv(), err, want)
		}
	}
}

func TestDecision_RewrittenHasCommandsOfLines(t *testing.T) {
	d := &Decision{request: Request{Argv: []string{"sh", "-c", "cd x && git log | cat"}}}
	if got := d.Rewritten(); got != nil {
		t.Errorf("got %q, want nothing", got)
	}
	d.argv = []string{"sh", "-c", "cd x && git log -- ':(exclude)y' | cat"}
	got := d.Rewritten()
	if len(got) != 2 || shell.Quote(got[0].Told) != shell.Quote(d.argv) || shell.Quote(got[1].Argv) != "git log" ||
		shell.Quote(got[1].Told) != "git log -- ':(exclude)y'" {
		t.Errorf("got %q", got)
	}
}

// TestLeaveOutNow_FindsWhatAppeared creates a file while the user is asked.
func TestLeaveOutNow_FindsWhatAppeared(t *testing.T) {
	for command, told := range map[string]string{"grep -r x": "grep -r x '--exclude=.env' '--exclude-dir=.env'", "tar c x": ""} {
		dir := t.TempDir()
		g := gateWith(true, func(context.Context) (*permissionv1.DecideResponse, error) {
			return &permissionv1.DecideResponse{Verdict: Ask, Rule: "greps", LeaveOut: []string{"**/.env"}}, nil
		})
		d, err := g.Decide(t.Context(), walks(command, dir))
		if err != nil || !g.LeaveOutNow(d) || d.Argv() != nil {
			t.Fatalf("%s, without the file: told %q (%v)", command, d.Argv(), err)
		}
		if err := os.WriteFile(filepath.Join(dir, ".env"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if left := g.LeaveOutNow(d); left != (told != "") || shell.Quote(d.Argv()) != told {
			t.Errorf("%s, with the file: got %t, told %s, want %s", command, left, shell.Quote(d.Argv()), told)
		}
	}
}

// TestLeaveOut_HoldsForEarlierAnswers has a person allow a command when the agent asks for it, which then reads a file that a rule denies.
func TestLeaveOut_HoldsForEarlierAnswers(t *testing.T) {
	for _, c := range []struct {
		name, command string
		on            Surface
		later         string // the policy's behaviour when the command is called: "" (asks, as before), "fails" or "denies"
		verdict       permissionv1.Verdict
		rule, reason  string
		told          bool
	}{
		{"it is told", "grep -r x", supervisorv1.Surface_SURFACE_AGENT_WORDS, "", Allow, "", "left out, because the policy forbids it: .env", true},
		{"it cannot be told", "tar c x", supervisorv1.Surface_SURFACE_AGENT_WORDS, "", Ask, RuleLeaveOut, "this command also reads .env", false},
		{"it cannot be told, and the person has read that", "tar c x", SurfaceInput, "", Allow, "", "this was allowed when the agent asked", false},
		{"the policy does not answer", "grep -r x", SurfaceInput, "fails", Deny, "", "the policy did not answer", false},
		{"the policy denies it", "grep -r x", SurfaceInput, "denies", Deny, "frozen", "The project is frozen.", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, later := t.TempDir(), ""
			if err := os.WriteFile(filepath.Join(dir, ".env"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			g := gateWith(true, func(context.Context) (*permissionv1.DecideResponse, error) {
				switch later {
				case "fails":
					return nil, errors.New("gone")
				case "denies":
					return &permissionv1.DecideResponse{Verdict: Deny, Rule: "frozen", Reason: "The project is frozen."}, nil
				}
				return &permissionv1.DecideResponse{Verdict: Ask, Rule: "asks", LeaveOut: []string{"**/.env"}}, nil
			})
			call, request := walks(c.command, dir), Request{Scope: "1", Turn: 1, Action: runs(permissionv1.Door_DOOR_REQUEST, c.command)}
			request.Action.GetCommand().SubCommands = call.Action.GetCommand().GetSubCommands()
			asked := decide(t, g, request)
			asked.Shown.Command = true
			if err := g.Record(asked, Outcome{Allowed: true, Option: acp.AllowOnce, By: ByClient, Surface: c.on}); err != nil {
				t.Fatal(err)
			}
			later = c.later
			d := decide(t, g, call)
			if d.Verdict != c.verdict || d.Rule != c.rule || !strings.Contains(d.Reason, c.reason) || (d.Argv() != nil) != c.told {
				t.Errorf("got %v by %q: %s; told %q", d.Verdict, d.Rule, d.Reason, d.Argv())
			}
		})
	}
}

func TestLeaveOut_CoversRecursiveCommands(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"clean", "secret"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "secret", ".env"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g := gateWith(true, func(context.Context) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: Allow, Rule: "look", Reason: "Looking.", LeaveOut: []string{"**/.env"}}, nil
	})
	for _, c := range []struct {
		name     string
		use      *permissionv1.FileUse
		told     bool // the program's arguments can be changed
		want     permissionv1.Verdict
		rule, in string
		argv     []string // if that is not "grep -r x", some words of which stand otherwise in the line
	}{
		{"nothing to leave out", &permissionv1.FileUse{Path: dir + "/clean", Recursive: true}, false, Allow, "look", "Looking.", nil},
		{"nobody can tell", &permissionv1.FileUse{Path: dir, Recursive: true}, false, Ask, RuleLeaveOut, ".env", nil},
		{"the program is told", &permissionv1.FileUse{Path: dir, Recursive: true}, true, Allow, "look", "left out, because the policy forbids it: .env", nil},
		{"where the path leads counts", &permissionv1.FileUse{Path: dir + "/clean", ResolvedPath: dir + "/secret", Recursive: true}, false, Ask,
			RuleLeaveOut, ".env", nil},
		{"names alone", &permissionv1.FileUse{Path: dir, Recursive: true, MetadataOnly: true}, false, Allow, "look", "", nil},
		{"one file", &permissionv1.FileUse{Path: dir + "/secret/x"}, false, Allow, "look", "", nil},
		{"an end of the options that the line has as a variable", &permissionv1.FileUse{Path: dir, Recursive: true}, true, Ask, RuleLeaveOut, ".env",
			[]string{"grep", "-r", "x", "--"}},
		{"another variable", &permissionv1.FileUse{Path: dir, Recursive: true}, true, Allow, "look", "left out, because the policy forbids it: .env", []string{"grep", "-r", "x", "."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Request{Action: &permissionv1.Action{Kind: "terminal.create", Door: permissionv1.Door_DOOR_CALL, Command: &permissionv1.Command{
				Text: "grep -r x", SubCommands: []*permissionv1.SubCommand{{Argv: []string{"grep", "-r", "x"}, Facts: &permissionv1.Facts{Known: true,
					Files: []*permissionv1.FileUse{c.use}}}}}}}
			if sub := r.Action.GetCommand().GetSubCommands()[0]; c.argv != nil {
				sub.Argv, sub.Written = c.argv, "grep -r x $f"
			}
			if c.told {
				r.Argv = r.Action.GetCommand().GetSubCommands()[0].GetArgv()
			}
			d, err := g.Decide(t.Context(), r)
			if err != nil || d.Verdict != c.want || d.Rule != c.rule || !strings.Contains(d.Reason, c.in) {
				t.Errorf("got %v by %q: %s (%v); want %v by %q: %q", d.Verdict, d.Rule, d.Reason, err, c.want, c.rule, c.in)
			}
			if !c.told && c.use.GetRecursive() && !c.use.GetMetadataOnly() { // as for a search of the agent
				d, err := g.Decide(t.Context(), Request{Action: &permissionv1.Action{Kind: "tool.search", Paths: []*permissionv1.PathAccess{
					{Path: c.use.GetPath(), ResolvedPath: c.use.GetResolvedPath(), Recursive: true}}}})
				if err != nil || d.Verdict != c.want || d.Rule != c.rule || !strings.Contains(d.Reason, c.in) {
					t.Errorf("a search: got %v by %q: %s (%v); want %v by %q: %q", d.Verdict, d.Rule, d.Reason, err, c.want, c.rule, c.in)
				}
			}
			if told := strings.Contains(c.in, "left out"); told != (d.Argv() != nil) {
				t.Errorf("got %q", d.Argv())
			}
		})
	}
}

func TestLeaveOut_CoversFoldersOfSidecar(t *testing.T) {
	g := gateWith(true, func(context.Context) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: Allow, Rule: "look", LeaveOut: []string{"**/.env"}}, nil
	})
	missing := filepath.Join(t.TempDir(), "missing")
	for name, use := range map[string]*permissionv1.FileUse{
		"a folder": {Path: missing, Recursive: true}, "a repository": {Path: missing, Recursive: true, Tracked: true},
	} {
		for elsewhere, want := range map[bool]permissionv1.Verdict{false: Allow, true: Ask} {
			argv := []string{"grep", "-r", "x"}
			if use.GetTracked() {
				argv = []string{"git", "grep", "x"}
			}
			d, err := g.Decide(t.Context(), Request{Elsewhere: elsewhere, Action: &permissionv1.Action{Kind: "terminal.create", Door: permissionv1.Door_DOOR_CALL,
				Command: &permissionv1.Command{SubCommands: []*permissionv1.SubCommand{{Argv: argv, Facts: &permissionv1.Facts{Known: true, Files: []*permissionv1.FileUse{use}}}}}}})
			if err != nil || d.Verdict != want {
				t.Errorf("%s, elsewhere %t: got %v: %s (%v), want %v", name, elsewhere, d.Verdict, d.Reason, err, want)
			}
		}
	}
}

func TestLeaveOut_CoversGit(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	repository := func(name, lines string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", `git init -q -b main "$0"; cd "$0"; echo x >main.go; echo x >.env
			commit() { git add "$@"; git -c user.name=n -c user.email=e commit -qm x; }
			commit main.go`+"\n"+lines, name)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return filepath.Join(dir, name)
	}
	clean, kept := repository("clean", ""), repository("kept", "commit .env")
	removed := repository("removed", "commit .env; git rm -q --cached .env; commit main.go -A; git gc -q")
	blind := repository("blind", "mkdir -p .git/objects/info; echo /x >.git/objects/info/alternates")
	g := gateWith(true, func(context.Context) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: Allow, Rule: "look", Reason: "Looking.", LeaveOut: []string{"**/.env"}}, nil
	})
	for _, dir := range []string{clean, kept, removed} {
		if !testkit.Poll(func() bool { return !g.repositories.Kept(dir+"/.git", []string{"**/.env"}, true, false).Incomplete }) {
			t.Fatalf("%s is not read to its end", dir)
		}
	}
	const spec = " -- ':(top,exclude,icase,glob)**/.env'"
	for _, c := range []struct {
		name, dir, line string
		told            string // empty: unchanged; "-": a person is asked
		door            bool   // the arguments cannot be changed
	}{
		{"nothing is kept", clean, "git log -p", "", false},
		{"nothing is kept, and nobody can tell", clean, "git log -p", "", true},
		{"a file in the index", kept, "git grep x", "git grep x" + spec, false},
		{"a file in the index, and nobody can tell", kept, "git grep x", "-", true},
		{"a file in the history, and the index is shown", removed, "git diff", "", false},
		{"a file in the history", removed, "git log -p", "git log -p" + spec, false},
		{"a file in the history, where git takes no pathspec", removed, "git stash show -p", "-", false},
		{"no contents", removed, "git log --stat", "", false},
		{"a file by a commit", kept, "git show HEAD:main.go", "", false},
		{"a forbidden file by a commit", kept, "git show HEAD^{/x}:.env", "-", false},
		{"an object by its id", clean, "git show 587be6b4c3f93f93c489c0111bba5596147a26cb", "-", false}, // "x\n"
		{"objects without names", clean, "git cat-file --batch", "-", false},
		{"what cannot be read", blind, "git log -p", "git log -p" + spec, false},
		{"what cannot be read, and nobody can tell", blind, "git log -p", "", true},
		{"what cannot be read, where git takes no pathspec", blind, "git stash show", "-", false},
		{"no repository", "/", "git log -p", "", false},
		{"git's own objects", removed + "/.git/objects/pack/x.pack", "cat x", "-", false},
		{"git's own objects, which hold nothing", clean + "/.git/objects/pack/x.pack", "cat x", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			argv := strings.Fields(c.line)
			use := &permissionv1.FileUse{Path: c.dir, ResolvedPath: c.dir, Recursive: true, Tracked: argv[0] == "cat" || git.ContentsOf(argv).Any()}
			if !use.GetTracked() {
				use.Recursive = false
			}
			r := Request{Action: &permissionv1.Action{Kind: "terminal.create", Door: permissionv1.Door_DOOR_CALL, Command: &permissionv1.Command{
				Text: c.line, SubCommands: []*permissionv1.SubCommand{{Argv: argv, Facts: &permissionv1.Facts{Known: true, Files: []*permissionv1.FileUse{use}}}}}}}
			if !c.door {
				r.Argv = argv
			}
			d, err := g.Decide(t.Context(), r)
			told := shell.Quote(d.Argv())
			switch asked := c.told == "-"; {
			case err != nil || asked != (d.Verdict == Ask) || asked && d.Rule != RuleLeaveOut:
				t.Errorf("got %v by %q: %s (%v)", d.Verdict, d.Rule, d.Reason, err)
			case !asked && (told != c.told || strings.Contains(d.Reason, "left out") != (told != "")):
				t.Errorf("got %s, want %s; %s", told, c.told, d.Reason)
			}
		})
	}
}

func TestLeaveOut_ShowsOnlyFilesOfRoots(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", `git init -q -b main .; mkdir -p pkg/src; echo x >pkg/src/a; git add pkg; git -c user.name=n -c user.email=e commit -qm x`)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	g := gateWith(true, func(context.Context) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: Allow, Rule: "look", Reason: "Looking.", OnlyInRoots: true}, nil
	})
	const spec = " -- ':(top,literal)pkg'"
	for _, c := range []struct {
		name, root, line, told string // told as in the test above
		door                   bool
	}{
		{"a difference", "/pkg", "git diff", "git diff" + spec, false},
		{"a difference, and nobody can tell", "/pkg", "git diff", "-", true},
		{"a log with contents", "/pkg", "git log -p -3", "git log -p -3" + spec, false},
		{"a part of the root", "/pkg", "git diff src", "git diff -- src", false},
		{"a part of the root that is told", "/pkg", "git diff -- src", "", false},
		{"no contents", "/pkg", "git status", "", true},
		{"a command that takes no pathspec", "/pkg", "git stash show -p", "-", false},
		{"a file by a commit", "/pkg", "git show HEAD:other", "-", false},
		{"from the top", "/pkg", "git diff -- :/", "-", false},
		{"a root that is the whole repository", "", "git diff", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			argv, root := strings.Fields(c.line), dir+c.root
			use := &permissionv1.FileUse{Path: root, ResolvedPath: root, Recursive: git.ContentsOf(argv).Any(), Tracked: git.ContentsOf(argv).Any()}
			r := Request{Action: &permissionv1.Action{Kind: "terminal.create", Door: permissionv1.Door_DOOR_CALL, Roots: []string{root}, Command: &permissionv1.Command{
				Text: c.line, SubCommands: []*permissionv1.SubCommand{{Argv: argv, Facts: &permissionv1.Facts{Known: true, Files: []*permissionv1.FileUse{use}}}}}}}
			if !c.door {
				r.Argv = argv
			}
			d, err := g.Decide(t.Context(), r)
			told := shell.Quote(d.Argv())
			if asked := c.told == "-"; err != nil || asked != (d.Verdict == Ask) || !asked && told != c.told {
				t.Errorf("got %v by %q: %s (%v), told %s, want %s", d.Verdict, d.Rule, d.Reason, err, told, c.told)
			}
		})
	}
}
