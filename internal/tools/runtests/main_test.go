package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const events1 = `{"Time":"2026-01-02T03:04:05Z","Action":"run","Package":"a","Test":"TestX"}
{"Time":"2026-01-02T03:04:06Z","Action":"fail","Package":"a","Test":"TestX/one","Elapsed":1}
{"Time":"2026-01-02T03:04:06Z","Action":"fail","Package":"a","Test":"TestX","Elapsed":1}
{"Time":"2026-01-02T03:04:06Z","Action":"fail","Package":"a","Test":"TestBroken","Elapsed":0.5}
{"Time":"2026-01-02T03:04:07Z","Action":"fail","Package":"a","Elapsed":3}
{"Time":"2026-01-02T03:04:07Z","Action":"pass","Package":"b","Test":"TestX","Elapsed":1}
{"Time":"2026-01-02T03:04:07Z","Action":"pass","Package":"b","Elapsed":70}
{"Time":"2026-01-02T03:04:08Z","Action":"pass","Package":"a","Test":"TestX/one","Elapsed":1}
{"Time":"2026-01-02T03:04:08Z","Action":"pass","Package":"a","Test":"TestX","Elapsed":1}
{"Time":"2026-01-02T03:04:08Z","Action":"fail","Package":"a","Test":"TestBroken","Elapsed":0.5}
{"Time":"2026-01-02T03:04:09Z","Action":"fail","Package":"a","Elapsed":2}
`

func TestEvents_FindsFlakyTestsAndSlowPackages(t *testing.T) {
	e, err := readEvents(strings.NewReader(events1))
	if err != nil {
		t.Fatal(err)
	}
	if got := e.flaky(); len(got) != 1 || got[0].pkg != "a" || got[0].test != "TestX/one" || got[0].took != time.Second {
		t.Errorf("flaky: %+v, want TestX/one of a", got)
	}
	got := e.slowest(10)
	if len(got) != 2 || got[0] != (packageTime{"b", 70 * time.Second}) || got[1] != (packageTime{"a", 3 * time.Second}) {
		t.Errorf("slowest: %+v, want b with 70 s and a with 3 s", got)
	}
	if _, err := readEvents(strings.NewReader("{")); err == nil {
		t.Error("half an event is accepted")
	}
}

func TestSamples_ReturnsLoadBeforeTime(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := samples{{at, "1.00"}, {at.Add(time.Second), "2.00"}}
	for _, c := range []struct {
		name string
		at   time.Time
		want string
	}{
		{"before the first", at.Add(-time.Second), ""},
		{"between", at.Add(time.Second / 2), "1.00"},
		{"after the last", at.Add(time.Minute), "2.00"},
	} {
		if got := s.at(c.at); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestRun_RerunsFailedTests runs a module with a test that fails once and then passes, and in one case with a test that
// always fails.
func TestRun_RerunsFailedTests(t *testing.T) {
	gotestsum, err := filepath.Abs("../../../.tools/bin/gotestsum")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gotestsum); err != nil {
		t.Skip("gotestsum is not installed: make test installs it")
	}
	for _, c := range []struct {
		name, always string
		fails        bool
	}{
		{"flaky", "", false},
		{"broken", `func TestBroken(t *testing.T) { t.Fatal("broken") }`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{
				"go.mod": "module example.org/m\n\ngo 1.26\n",
				"m_test.go": `package m

import (
	"os"
	"testing"
)

func TestFlaky(t *testing.T) {
	if os.Mkdir("marker", 0o700) == nil {
		t.Fatal("the first time")
	}
}

` + c.always + "\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(dir)
			t.Setenv("GOWORK", "off")
			t.Setenv("GOFLAGS", "")
			o := options{name: "m", packages: "./...", gotestsum: gotestsum, dir: filepath.Join(dir, "events"), flaky: filepath.Join(dir, "flaky.txt"), reruns: 2, flags: []string{"-count=1"}}
			err := run(o)
			if _, failed := errors.AsType[*exec.ExitError](err); failed != c.fails || err != nil && !failed {
				t.Fatalf("the run: %v, want failure %v", err, c.fails)
			}
			var report bytes.Buffer
			if err := printReport(&report, o); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"slowest packages:", "example.org/m", "flaky tests: 1", "FLAKY example.org/m TestFlaky: failed at 20", "with a load of "} {
				if !strings.Contains(report.String(), want) {
					t.Errorf("the report has no %q:\n%s", want, &report)
				}
			}
			if strings.Contains(report.String(), "TestBroken") {
				t.Errorf("a test that always fails is reported as flaky:\n%s", &report)
			}
		})
	}
}
