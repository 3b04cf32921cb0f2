// Command runtests runs Go tests through gotestsum, which runs failed tests again, and reports those that then passed.
//
//	runtests -name NAME -packages 'PATTERNS' [-reruns N] -- FLAGS OF GO TEST
//	runtests -report
//
// A test that passes in a rerun is flaky: it does not fail the run, and is printed as FLAKY with the time and the load
// of the machine at which it failed, and appended to bin/flaky.txt. A test that fails in each rerun fails the run, and
// so do more than ten failed tests, which have a common cause. With -report, runtests prints the ten slowest packages
// and the flaky tests of all runs.
//
// It knows the events of `go test -json`, and not the tests.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	maxReruns   = 2
	maxFailures = 10
	slowest     = 10
)

func main() {
	var o options
	flag.StringVar(&o.name, "name", "", "name of the run: its events are kept in DIR/NAME.json")
	flag.StringVar(&o.packages, "packages", "", "patterns of the packages to test, separated by spaces")
	flag.StringVar(&o.gotestsum, "gotestsum", "gotestsum", "path of gotestsum")
	flag.StringVar(&o.dir, "dir", "bin/tests", "folder for events")
	flag.StringVar(&o.flaky, "flaky", "bin/flaky.txt", "file to which flaky tests are appended")
	flag.IntVar(&o.reruns, "reruns", maxReruns, "how often a failed test is run again")
	report := flag.Bool("report", false, "print the slowest packages and the flaky tests of all runs, and test nothing")
	flag.Parse()
	o.flags = flag.Args()
	if *report {
		if err := printReport(os.Stdout, o); err != nil {
			fmt.Fprintln(os.Stderr, "runtests:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(o); err != nil {
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			os.Exit(failed.ExitCode())
		}
		fmt.Fprintln(os.Stderr, "runtests:", err)
		os.Exit(1)
	}
}

// options are the options of one run.
type options struct {
	name, packages, gotestsum, dir, flaky string
	reruns                                int
	flags                                 []string
}

func (o options) events() string { return filepath.Join(o.dir, o.name+".json") }

// run runs the tests, and appends the flaky ones to the file for them. The error is that of gotestsum, an
// *exec.ExitError if a test failed.
func run(o options) error {
	if o.name == "" || o.packages == "" {
		return errors.New("a run needs -name and -packages")
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	cmd := exec.Command(o.gotestsum, append([]string{
		"--format", "pkgname-and-test-fails", "--hide-summary", "skipped", "--jsonfile", o.events(), "--packages", o.packages,
		"--rerun-fails=" + strconv.Itoa(o.reruns), "--rerun-fails-max-failures=" + strconv.Itoa(maxFailures), "--rerun-fails-run-root-test",
		"--",
	}, o.flags...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	loads := sampleLoads(time.Second)
	err := cmd.Run()
	samples := loads.stop()
	file, open := os.Open(o.events())
	if open != nil {
		return errors.Join(err, open)
	}
	defer file.Close()
	read, parse := readEvents(file)
	if parse != nil {
		return errors.Join(err, fmt.Errorf("read the events of %s: %w", o.name, parse))
	}
	return errors.Join(err, appendFlaky(o.flaky, read.flaky(), samples))
}

// appendFlaky appends a line for each flaky test to the named file.
func appendFlaky(name string, tests []failure, loads samples) error {
	if len(tests) == 0 {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	for _, t := range tests {
		_, err = fmt.Fprintf(f, "FLAKY %s %s: failed at %s after %s, with a load of %s; passed in a rerun\n", t.pkg, t.test,
			t.at.UTC().Format(time.RFC3339), t.took.Round(10*time.Millisecond), cmp.Or(loads.at(t.at), "unknown"))
	}
	return errors.Join(err, f.Close())
}

// printReport prints the slowest packages of all runs, and their flaky tests.
func printReport(w io.Writer, o options) error {
	files, err := filepath.Glob(filepath.Join(o.dir, "*.json"))
	if err != nil {
		return err
	}
	var all events
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		e, err := readEvents(f)
		_ = f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all.packages = append(all.packages, e.packages...)
	}
	fmt.Fprintf(w, "slowest packages:\n")
	for _, p := range all.slowest(slowest) {
		fmt.Fprintf(w, "%8.1f s  %s\n", p.took.Seconds(), p.name)
	}
	text, err := os.ReadFile(o.flaky)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fmt.Fprintf(w, "flaky tests: %d\n%s", strings.Count(string(text), "\n"), text)
	return nil
}
