package corpus

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

//go:embed corpus.yaml
var table []byte

// entries is the shape of corpus.yaml.
type entries struct {
	Policies map[string]string `yaml:"policies"`
	Entries  []entry           `yaml:"entries"`
}

// entry is one way to perform an action. ${ws}, ${outside} and ${home} stand for folders of the fixture.
type entry struct {
	Policy string `yaml:"policy"`
	Name   string `yaml:"name"`
	Want   string `yaml:"want"`
	// A command line, or an argv, and the other parts of the request.
	Command string   `yaml:"command"`
	Argv    []string `yaml:"argv"`
	Cwd     string   `yaml:"cwd"`
	Env     []string `yaml:"env"`
	// Repeat is how often Command is repeated; 0 is once.
	Repeat int `yaml:"repeat"`
	// SuffixHex are bytes behind Command that YAML cannot hold.
	SuffixHex string `yaml:"suffix_hex"`
	// Or a path, and the kind of action on it.
	Path *string `yaml:"path"`
	Kind string  `yaml:"kind"`
	// Known is the reason why the entry fails. It must then fail.
	Known string `yaml:"known"`
}

func (e *entry) action(t *testing.T, s fixture) *permissionv1.Action {
	if e.Path != nil {
		return s.use(e.Kind, s.expand(*e.Path))
	}
	suffix, err := hex.DecodeString(e.SuffixHex)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat(s.expand(e.Command), max(1, e.Repeat)) + string(suffix)
	return s.run(line, e.Argv, e.Env, s.expand(e.Cwd))
}

// met reports whether a verdict is the expected one of an entry.
func (e *entry) met(got permissionv1.Verdict) bool {
	switch e.Want {
	case "allow":
		return got == permissionv1.Verdict_VERDICT_ALLOW
	case "ask":
		return got == permissionv1.Verdict_VERDICT_ASK
	case "deny":
		return got == permissionv1.Verdict_VERDICT_DENY
	}
	return got == permissionv1.Verdict_VERDICT_ASK || got == permissionv1.Verdict_VERDICT_DENY
}

func load(t testing.TB) entries {
	t.Helper()
	var all entries
	dec := yaml.NewDecoder(bytes.NewReader(table))
	dec.KnownFields(true)
	if err := dec.Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

func parse(t testing.TB, name, text string, s fixture) *policy.Policy {
	t.Helper()
	p, err := policy.Parse(name, []byte(text), s.surroundings())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCorpus_PoliciesDecideAsExpected(t *testing.T) {
	all, s := load(t), newFixture(t)
	policies := map[string]*policy.Policy{}
	for name, text := range all.Policies {
		policies[name] = parse(t, name, text, s)
	}
	if n := len(all.Entries); n < 200 {
		t.Fatalf("the corpus has %d entries, want at least 200", n)
	}
	seen := map[string]bool{}
	for i := range all.Entries {
		e := &all.Entries[i]
		p := policies[e.Policy]
		switch id := e.Policy + ": " + e.Name; {
		case p == nil, e.Name == "", seen[id]:
			t.Errorf("entry %d: %q is not a policy, or the name %q is taken or missing", i, e.Policy, e.Name)
			continue
		case !strings.Contains(" allow ask deny not-allow ", " "+e.Want+" "):
			t.Errorf("%s: want is %q", id, e.Want)
			continue
		default:
			seen[id] = true
		}
		a := e.action(t, s)
		d := policy.Decide([]policy.Part{{Policy: p}}, a)
		switch ok := e.met(d.GetVerdict()); {
		case ok && e.Known != "":
			t.Errorf("%s: %s passes now: take out that it is known to fail (%s)", e.Policy, e.Name, e.Known)
		case !ok && e.Known == "":
			t.Errorf("%s: %s\n  %s\n  got %s by rule %q (%s), want %s\n  %s", e.Policy, e.Name, e.what(),
				d.GetVerdict(), d.GetRule(), d.GetReason(), e.Want, describe(a))
		}
	}
}

// what is the entry's action in short.
func (e *entry) what() string {
	switch {
	case e.Path != nil:
		return fmt.Sprintf("%s %q", e.Kind, *e.Path)
	case len(e.Argv) > 0:
		return fmt.Sprintf("%q", e.Argv)
	}
	return fmt.Sprintf("%.300q", e.Command)
}

// describe returns the facts of the action that the policies use.
func describe(a *permissionv1.Action) string {
	if len(a.GetCommand().GetSubCommands()) > 20 {
		return "(many commands)"
	}
	return fmt.Sprintf("unparsed %q, command %v, paths %v", a.GetUnparsed(), a.GetCommand(), a.GetPaths())
}

func TestCorpus_HasEveryVerdict(t *testing.T) {
	count := map[string]int{}
	all := load(t)
	for _, e := range all.Entries {
		count[e.Want]++
	}
	for _, want := range []string{"allow", "deny", "not-allow"} {
		if count[want] < 20 {
			t.Errorf("%d entries want %s: too few for the others to mean anything", count[want], want)
		}
	}
}
