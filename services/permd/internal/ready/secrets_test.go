package ready

import (
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/secretfile"
	"github.com/acphost/acphost/internal/secretfile/secrettest"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

// TestPolicies_SecretContentKeepsReuse: the rule about the content of every file prevents neither that an allowed read
// holds for other files, nor that a search is allowed.
func TestPolicies_SecretContentKeepsReuse(t *testing.T) {
	text, _ := Get("workspace")
	p, err := policy.Parse("workspace", text, policy.Surroundings{Home: "/home/u"})
	if err != nil {
		t.Fatal(err)
	}
	parts, read := []policy.Part{{Policy: p}}, act("fs.read /ws/src/main.go")
	read.Door = permissionv1.Door_DOOR_CALL
	if got := policy.Reusable(parts, read, policy.Decide(parts, read)); got == nil {
		t.Error("an allowed read holds for no other file in its folder")
	}
	search := policy.Decide(parts, act("grep -rn TODO ."))
	if i := slices.IndexFunc(search.GetLeaveOut(), func(glob string) bool { return strings.Trim(glob, "/*") == "" }); i >= 0 {
		t.Errorf("a search leaves out %q", search.GetLeaveOut()[i])
	}
}

// TestPolicies_DecideSecretFiles decides about each file of the corpus: as a read of the agent, as a read of a
// process, in command lines that read it or its metadata, and in the line of a program that is not known.
func TestPolicies_DecideSecretFiles(t *testing.T) {
	files := secrettest.Files(t)
	for _, name := range []string{"headless", "readonly", "workspace"} {
		text, _ := Get(name)
		p, err := policy.Parse(name, text, policy.Surroundings{Home: "/home/u"})
		if err != nil {
			t.Fatal(err)
		}
		denied := func(a *permissionv1.Action) (bool, string) {
			d := policy.Decide([]policy.Part{{Policy: p}}, a)
			return d.GetVerdict() == permissionv1.Verdict_VERDICT_DENY, d.GetRule()
		}
		for _, f := range files {
			file := f.Under("/ws", "/home/u")
			of := func(asked string, reads bool) secretfile.Verdict {
				verdict := secretfile.Judge(file, f.Content, true)
				listed := secretfile.Needs(file) != secretfile.MaxPrefix
				if asked == file && (reads || listed) {
					return verdict
				}
				return secretfile.Ordinary
			}
			byName := f.Want == secretfile.Secret
			secret := byName || f.Want == secretfile.HoldsKey
			process := actOn("fs.read "+file, of)
			process.Door, process.Paths[0].HoldsPrivateKey = permissionv1.Door_DOOR_KERNEL, false
			for what, c := range map[string]struct {
				a    *permissionv1.Action
				want bool
			}{
				"the agent reads it":          {actOn("fs.read "+file, of), secret},
				"a process reads it":          {process, byName},
				"cat":                         {actOn("cat "+file, of), secret},
				"a redirection":               {actOn("cat < "+file, of), secret},
				"one of several files":        {actOn("grep -n x main.go "+file, of), secret},
				"ls, which does not read it":  {actOn("ls -l "+file, of), byName},
				"an agent's tool reads it":    {actOn("tool.read "+file, of), secret},
				"an agent's tool, by a link":  {actOn("tool.read /ws/link -> "+file, of), secret},
				"a program that is not known": {actOn("frobnicate "+file, of), name == "readonly" || secretfile.Named(file)},
				"an option of such a program": {actOn("frobnicate --file="+file, of), name == "readonly" || secretfile.Named(file)},
			} {
				if got, rule := denied(c.a); got != c.want {
					t.Errorf("%s: %s, %s: denied %t by rule %q, want %t", name, f.Path, what, got, rule, c.want)
				}
			}
		}
	}
}
