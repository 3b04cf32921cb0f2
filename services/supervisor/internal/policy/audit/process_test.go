package audit

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

// childRole tells the test binary, run again, what to do with the file in its first argument.
const childRole = "ACPHOST_AUDIT_TEST_CHILD"

// child is another supervisor. It returns the exit status.
func child(role string) int {
	var err error
	switch role {
	case "write":
		err = writeAsChild(os.Args[1], os.Args[2])
	case "fill":
		err = fillAsChild(os.Args[1])
	default:
		err = fmt.Errorf("there is no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

const (
	children = 4
	each     = 400
	// smallest is the size at which files are put aside in these tests: about 90 records each.
	smallest = MaxLine
)

// writeAsChild writes records with ids of its own.
func writeAsChild(file, name string) error {
	l, err := Open(Options{File: file, MaxBytes: smallest, Keep: 100})
	if err != nil {
		return err
	}
	for i := range each {
		if err := l.Write(record(name + "-" + strconv.Itoa(i))); err != nil {
			return err
		}
	}
	return l.Close()
}

// asChild runs this binary again.
func asChild(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(testkit.Self(t), args...)
	cmd.Env = append(os.Environ(), childRole+"="+role)
	return cmd
}

func TestRotation_SharedBySupervisors(t *testing.T) {
	l := open(t, Options{MaxBytes: smallest, Keep: 100})
	write(t, l, record("first"))
	followed := following(t, l.opts.File, Filter{Limit: children*each + 1})
	expect(t, followed, "first")
	type end struct {
		err    error
		stderr string
	}
	ends := make(chan end, children)
	for i := range children {
		cmd := asChild(t, "write", l.opts.File, strconv.Itoa(i))
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			err := cmd.Wait()
			ends <- end{err, stderr.String()}
		}()
	}
	// Whoever reads meanwhile misses none of a child's records and sees none twice.
	seen := map[string]int{}
	for range children * each {
		id := <-followed
		name, number, _ := strings.Cut(id, "-")
		if n, err := strconv.Atoi(number); err != nil || seen[name] != n {
			t.Errorf("after %d records of child %s came %q", seen[name], name, id)
			break
		}
		seen[name]++
	}
	for range children {
		if e := <-ends; e.err != nil {
			t.Errorf("%v: %s", e.err, e.stderr)
		}
	}
	write(t, l, record("last"))
	got := map[string]int{}
	for _, r := range readAll(t, l.opts.File, Filter{}) {
		name, _, _ := strings.Cut(r.GetId(), "-")
		got[name]++
	}
	for i := range children {
		if n := got[strconv.Itoa(i)]; n != each {
			t.Errorf("child %d has %d records, want %d", i, n, each)
		}
	}
	if got["first"] != 1 || got["last"] != 1 {
		t.Errorf("got %v", got)
	}
	for n := 1; ; n++ {
		f, err := os.Open(rotatedName(l.opts.File, n))
		if err != nil {
			if n < 10 {
				t.Errorf("only %d files were put aside", n-1)
			}
			break
		}
		info, err := f.Stat()
		if err != nil || info.Size() > smallest {
			t.Errorf("%s has %d bytes", f.Name(), info.Size())
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if !strings.HasPrefix(lines.Text(), "{") || !strings.HasSuffix(lines.Text(), "}") {
				t.Errorf("%s holds the line %q", f.Name(), lines.Text())
			}
		}
		_ = f.Close()
	}
}
