package day

import (
	"flag"
	"testing"

	"github.com/acphost/acphost/internal/sandbox"
	_ "github.com/acphost/acphost/internal/sandbox/sandboxed" // has sandbox.Supported try
	"github.com/acphost/acphost/test/e2e"
)

var (
	policy     = flag.String("policy", "", "measure under this policy alone: a ready-made one, or a rule file. Default: workspace, headless and readonly")
	mode       = flag.String("sandbox", "enforce", "sandbox.mode")
	network    = flag.String("network", "", "sandbox.network; empty: not set")
	reads      = flag.String("reads", "", "sandbox.reads; empty: not set")
	unattended = flag.Bool("unattended", false, "deny what is asked, as always under headless")
	whole      = flag.Bool("whole", false, "print all steps, and what was asked and differs")
)

func TestMain(m *testing.M) { e2e.Main(m) }

// configurations are those to measure, by the flags.
func configurations() (all []configuration) {
	policies := []string{"workspace", "headless", "readonly"}
	if *policy != "" {
		policies = []string{*policy}
	}
	for _, name := range policies {
		all = append(all, configuration{policy: name, sandbox: *mode, network: *network, reads: *reads, unattended: *unattended || name == "headless"})
	}
	return all
}

// measures reports whether a step is measured in a configuration: readonly is for steps that look.
func (c configuration) measures(s *step) bool { return c.policy != "readonly" || s.Looks }

func TestDay(t *testing.T) { measure(t, load(t, dayYAML)) }

func TestGit(t *testing.T) { measure(t, load(t, gitYAML)) }

func measure(t *testing.T, steps []step) {
	if err := sandbox.Supported(); err != nil {
		t.Skipf("there is no sandbox here: %v", err)
	}
	b := newBase(t, steps)
	var r report
	t.Run("step", func(t *testing.T) {
		for i := range steps {
			s := &steps[i]
			t.Run(s.Name, func(t *testing.T) {
				if missing := s.lacks(); len(missing) > 0 {
					r.skip(s, missing)
					t.Skipf("not installed: %q", missing)
				}
				t.Parallel()
				r.measureStep(t, b, s)
			})
		}
	})
	r.print(*whole)
}

// measureStep runs a step twice without acphost, which shows the files that always differ, and then in each
// configuration and way.
func (r *report) measureStep(t *testing.T, b *base, s *step) {
	p := b.newPlace(t, s)
	bare := p.bare(t, s)
	want := stable(bare.tree, p.bare(t, s).tree)
	if bare.status != 0 {
		t.Errorf("without acphost its status is %d:\n%s", bare.status, bare.output)
	}
	for _, c := range configurations() {
		for _, w := range []way{byTerminal, byItself} {
			if !c.measures(s) {
				continue
			}
			t.Run(c.String()+"/"+string(w), func(t *testing.T) {
				o := p.hosted(t, s, c, w, bare.status)
				r.add(row{step: s, configuration: c, way: w, outcome: o, failed: o.status != bare.status, differs: difference(want, o.tree)})
			})
		}
	}
}
