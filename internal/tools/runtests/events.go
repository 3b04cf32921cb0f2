package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"
)

// event is a line of `go test -json`.
type event struct {
	Time    time.Time
	Action  string
	Package string
	Test    string
	Elapsed float64 // seconds
}

// failure is a test that failed.
type failure struct {
	pkg, test string
	at        time.Time
	took      time.Duration
}

// packageTime is the duration of a package's tests.
type packageTime struct {
	name string
	took time.Duration
}

// events are the events of one run with its reruns.
type events struct {
	packages []packageTime // of the first run of each package
	failures []failure     // in order
	passed   map[string]time.Time
}

// readEvents reads the lines of `go test -json`, those of a run first and of its reruns after it.
func readEvents(r io.Reader) (events, error) {
	e := events{passed: map[string]time.Time{}}
	seen := map[string]bool{}
	for d := json.NewDecoder(r); ; {
		var one event
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			return e, nil
		} else if err != nil {
			return e, err
		}
		took := time.Duration(one.Elapsed * float64(time.Second))
		switch {
		case one.Action != "pass" && one.Action != "fail":
		case one.Test == "" && !seen[one.Package]:
			seen[one.Package] = true
			e.packages = append(e.packages, packageTime{one.Package, took})
		case one.Test == "":
		case one.Action == "fail":
			e.failures = append(e.failures, failure{one.Package, one.Test, one.Time, took})
		default:
			e.passed[one.Package+" "+one.Test] = one.Time
		}
	}
}

// flaky returns the first failure of each test that passed later. It omits tests with subtests: the failed subtest is
// named.
func (e events) flaky() []failure {
	var all []failure
	seen := map[string]bool{}
	for _, f := range e.failures {
		key := f.pkg + " " + f.test
		if passed, ok := e.passed[key]; ok && passed.After(f.at) && !seen[key] {
			seen[key] = true
			all = append(all, f)
		}
	}
	return slices.DeleteFunc(all, func(f failure) bool {
		return slices.ContainsFunc(all, func(other failure) bool {
			return other.pkg == f.pkg && strings.HasPrefix(other.test, f.test+"/")
		})
	})
}

// slowest returns the n slowest packages, the slowest first.
func (e events) slowest(n int) []packageTime {
	slices.SortStableFunc(e.packages, func(a, b packageTime) int { return cmp.Compare(b.took, a.took) })
	return e.packages[:min(n, len(e.packages))]
}
