package day

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
)

// row is the result of a step in a configuration and a way.
type row struct {
	step *step
	configuration
	way
	outcome
	failed  bool     // its status is another than without acphost
	differs []string // the paths that differ from those without acphost
}

func (r row) key() string { return r.configuration.String() + "\t" + string(r.way) }

// silent reports whether the step had no question and the same result as without acphost.
func (r row) silent() bool { return len(r.questions) == 0 && !r.failed && len(r.differs) == 0 }

// report has the rows of all steps. Its methods are safe for concurrent use.
type report struct {
	mu      sync.Mutex
	rows    []row
	skipped []string
}

func (r *report) add(one row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, one)
}

func (r *report) skip(s *step, missing []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped = append(r.skipped, fmt.Sprintf("%s (%s)", s.Name, strings.Join(missing, ", ")))
}

// print prints the steps that were not silent, or all, and the totals of each configuration and way.
func (r *report) print(all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortStableFunc(r.rows, func(a, b row) int {
		return cmp.Or(strings.Compare(a.key(), b.key()), strings.Compare(a.step.Name, b.step.Name))
	})
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer out.Flush()
	fmt.Fprintln(out, "configuration\tway\tstep\tquestions\tagain\tstatus\tfiles\tdenied by")
	var sums []*totals
	for _, one := range r.rows {
		if !one.silent() || all {
			fmt.Fprintln(out, one)
		}
		if len(sums) == 0 || sums[len(sums)-1].key != one.key() {
			sums = append(sums, &totals{key: one.key()})
		}
		sums[len(sums)-1].count(one)
	}
	if all {
		for _, one := range r.rows {
			fmt.Fprint(out, one.details())
		}
	}
	fmt.Fprintln(out, "\nconfiguration\tway\tsteps\tasked\tquestions\texpected\tagain\tfailed\tdiffering")
	for _, t := range sums {
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", t.key, t.steps, t.asked, t.questions, t.expected, t.again, t.failed, t.differing)
	}
	if len(r.skipped) > 0 {
		fmt.Fprintf(out, "\nskipped, since programs are missing: %s\n", strings.Join(r.skipped, "; "))
	}
}

// String returns the row's line of the table.
func (r row) String() string {
	again, status := "", strconv.Itoa(r.status)
	if r.again {
		again = "again"
	}
	if r.status == refused {
		status = "refused"
	}
	return fmt.Sprintf("%s\t%s\t%d\t%s\t%s\t%d\t%s", r.key(), r.step.Name, len(r.questions), again, status, len(r.differs), strings.Join(r.denials, ", "))
}

// details returns what was asked, the files that differ, and the output of a step that failed; empty for a silent row.
func (r row) details() string {
	if r.silent() {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s, %s, %s\n", r.step.Name, r.configuration, r.way)
	for _, q := range r.questions {
		fmt.Fprintf(&b, "  asked: %s\n", cut(q, 160))
	}
	if len(r.questions) > 0 && r.step.Crosses != "" {
		fmt.Fprintf(&b, "  expected: %s\n", r.step.Crosses)
	}
	if len(r.differs) > 0 {
		fmt.Fprintf(&b, "  files: %s\n", cut(strings.Join(r.differs, " "), 600))
	}
	if r.failed {
		fmt.Fprintf(&b, "  output: %s\n", cut(r.output, 400))
	}
	return b.String()
}

// totals are the sums of a configuration and a way: its steps, those with a question, the questions, those of steps
// that cross, the steps that were run again, that failed, and that have differing files.
type totals struct {
	key                                                         string
	steps, asked, questions, expected, again, failed, differing int
}

func (t *totals) count(r row) {
	n := len(r.questions)
	t.steps++
	t.questions += n
	t.asked += one(n > 0)
	t.again += one(r.again)
	t.failed += one(r.failed)
	t.differing += one(len(r.differs) > 0)
	if r.step.Crosses != "" {
		t.expected += n
	}
}

// one is 1 if a condition holds, and 0 otherwise.
func one(holds bool) int {
	if holds {
		return 1
	}
	return 0
}

// cut returns a text on one line, with n characters at most.
func cut(text string, n int) string {
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) > n {
		line = append(line[:n-1], '…')
	}
	return string(line)
}
