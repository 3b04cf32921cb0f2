package policy_test

import (
	"testing"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

// with changes the last path of an action.
func with(change func(*permissionv1.PathAccess)) func(*permissionv1.Action) {
	return func(a *permissionv1.Action) { change(a.GetPaths()[len(a.GetPaths())-1]) }
}

func TestDecide_LimitsOfPaths(t *testing.T) {
	const (
		head = "version: 1\nrules:\n- {id: rest, effect: allow, on: [terminal.create, 'fs.*', 'tool.*']}\n"
		env  = head + `- {id: a, effect: deny, path: ["**/.env", "**/.env.*", "!**/.env.{example,d.ts}", "!${root}/open/**"]}`
		read = head + `- {id: a, effect: deny, path: ["**/.env"], access: read}`
		made = head + `- {id: a, effect: ask, path: ["**/.env"], access: write}`
		keys = head + `- {id: a, effect: deny, path: ["**/*.pem"], unless_public: true}`
		held = head + `- {id: a, effect: deny, path: ["/ws/**"], access: read, holds_private_key: true}`
		word = head + `- {id: a, effect: deny, when: "action.command.sub_commands.exists(s, s.argv.exists(w, names_secret(w)))"}`
		exec = "terminal.create"
	)
	writing := with(func(p *permissionv1.PathAccess) { p.Access = permissionv1.Access_ACCESS_WRITE })
	unsaid := with(func(p *permissionv1.PathAccess) { p.Access = permissionv1.Access_ACCESS_UNSPECIFIED })
	public := with(func(p *permissionv1.PathAccess) { p.Public = true })
	usePublic := func(u *permissionv1.FileUse) { u.Public = true }
	secret := with(func(p *permissionv1.PathAccess) { p.HoldsPrivateKey = true })
	useSecret := func(u *permissionv1.FileUse) { u.HoldsPrivateKey = true }
	for _, c := range []struct {
		name, rules string
		action      *permissionv1.Action
		want        permissionv1.Verdict
	}{
		{"a name that is not excepted", env, about("fs.read", path("/ws/.env.local")), deny},
		{"a name that is excepted", env, about("fs.read", path("/ws/.env.example")), allow},
		{"in other case", env, about("fs.read", path("/ws/.env.EXAMPLE")), allow},
		{"with more after it", env, about("fs.read", path("/ws/.env.example.local")), deny},
		{"a file in a folder of that name", env, about("fs.read", path("/ws/.env.example/.env")), deny},
		{"a name that leads to another", env, about("fs.read", link("/ws/.env.example", "/ws/.env")), deny},
		{"another that leads to such a name", env, about("fs.read", link("/ws/.env", "/ws/.env.example")), deny},
		{"a folder that is excepted", env, about("fs.read", path("/ws/open/.env")), allow},
		{"a link out of that folder", env, about("fs.read", link("/ws/open/.env", "/ws/.env")), deny},
		{"dots out of that folder", env, about("fs.read", path("/ws/open/../.env")), deny},
		{"a word that is excepted", env, about(exec, line("frobnicate .env.example")), allow},
		{"a word that is not", env, about(exec, line("frobnicate .env.example .env")), ask},
		{"a word that may be another", env, about(exec, line("frobnicate .env.$x")), ask},

		{"a read", read, about("fs.read", path("/ws/.env")), deny},
		{"a write", read, about("fs.write", path("/ws/.env"), writing), allow},
		{"an access that is not known", read, about("tool.edit", path("/ws/.env"), unsaid), deny},
		{"a command that reads", read, about(exec, line("cp .env x"), does(0, reads("/ws/.env"), writes("/ws/x"))), deny},
		{"a command that writes", read, about(exec, line("cp x .env"), does(0, reads("/ws/x"), writes("/ws/.env"))), allow},
		{"a command that reads where that leads is not known", read, about(exec, line("cp x y"), does(0, reads("/ws/x", leading("")))), ask},
		{"a command of which it is not known", read, about(exec, line("mv x .env")), ask},
		{"a file that is made", made, about(exec, line("cp x .env"), does(0, reads("/ws/x"), writes("/ws/.env"))), ask},
		{"a file that is read", made, about(exec, line("cp .env x"), does(0, reads("/ws/.env"), writes("/ws/x"))), allow},

		{"a key", keys, about("fs.read", path("/ws/a.pem")), deny},
		{"a public key", keys, about("fs.read", path("/ws/a.pem"), public), allow},
		{"a command and a public key", keys, about(exec, line("cat a.pem"), does(0, reads("/ws/a.pem", usePublic))), allow},
		{"a command, a public key and another", keys, about(exec, line("cat a.pem b.pem"), does(0, reads("/ws/a.pem", usePublic), reads("/ws/b.pem"))), deny},
		{"an unknown command and a public key", keys, about(exec, line("frobnicate a.pem")), ask},
		{"a secret", held, about("fs.read", path("/ws/id"), secret), deny},
		{"a secret, by a link", held, about("fs.read", link("/srv/x", "/ws/id"), secret), deny},
		{"a secret elsewhere", held, about("fs.read", path("/srv/id"), secret), allow},
		{"a file that is none", held, about("fs.read", path("/ws/id")), allow},
		{"a secret that is written", held, about("fs.write", path("/ws/id"), secret, writing), allow},
		{"a command that reads a secret", held, about(exec, line("cat x id"), does(0, reads("/ws/x"), reads("/ws/id", useSecret))), deny},
		{"a command that may read a secret", held, about(exec, line("cat id"), does(0, reads("/ws/id", useSecret, possible))), ask},
		{"a command that reads another file", held, about(exec, line("cat id"), does(0, reads("/ws/id"))), allow},
		{"an unknown command and a file", held, about(exec, line("frobnicate id")), allow},
		{"an unknown command with a variable", held, about(exec, line("frobnicate $x")), allow},
		{"a word that names a secret", word, about(exec, line("frobnicate --file=.env")), deny},
		{"a word that names none", word, about(exec, line("frobnicate --file=.env.example")), allow},
		{"two paths", keys, about("tool.read", path("/ws/a.pem", "/ws/b.pem"), public), deny},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := policy.Decide([]policy.Part{{Policy: parse(t, c.rules), Layer: permissionv1.Layer_LAYER_USER}}, c.action)
			if got.GetVerdict() != c.want {
				t.Errorf("got %v by %q (%s), want %v", got.GetVerdict(), got.GetRule(), got.GetReason(), c.want)
			}
		})
	}
}

func TestDecide_GitShowsOnlyFilesOfRoots(t *testing.T) {
	const (
		head   = "version: 1\nrules:\n"
		look   = head + "- {id: a, effect: allow, reads: ['${root}/**']}"
		byName = head + "- {id: a, effect: allow, command: [git diff, git status]}"
		all    = head + "- {id: a, effect: allow, on: [terminal.create]}"
	)
	for _, c := range []struct {
		name, rules, line, dir string
		shows, want            bool
	}{
		{"a rule about reads", look, "git diff", "/.git", true, true},
		{"a rule about commands", byName, "git diff", "/.git", true, true},
		{"a rule for every command", all, "git diff", "/.git", true, false},
		{"no contents", look, "git status", "/.git", false, false},
		{"a repository in the root", look, "git diff", "/ws/.git", true, false},
		{"a repository above a root by dots", look, "git diff", "/ws/../.git", true, true},
	} {
		use := func(f *permissionv1.Facts) {}
		if c.shows {
			use = reads("/ws", recursive, tracked)
		}
		a := about("terminal.create", line(c.line), does(0, use))
		a.Command.SubCommands[0].Repository = &acpv1.Repository{GitDir: c.dir, AtRoot: true}
		got := policy.Decide([]policy.Part{{Policy: parse(t, c.rules), Layer: permissionv1.Layer_LAYER_USER}}, a)
		if got.GetVerdict() != allow || got.GetOnlyInRoots() != c.want {
			t.Errorf("%s: got %v, only in roots %t (%s), want it allowed, and %t", c.name, got.GetVerdict(), got.GetOnlyInRoots(), got.GetReason(), c.want)
		}
	}
}
