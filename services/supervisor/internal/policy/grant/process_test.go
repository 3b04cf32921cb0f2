package grant

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/ownfile"
	"github.com/acphost/acphost/internal/testkit"
)

// childRole tells the test binary, run again, what to do with the file in its first argument.
const childRole = "ACPHOST_GRANT_TEST_CHILD"

// child adds and revokes grants of its own as another supervisor would, and says which hold in the end. It returns the
// exit status.
func child(role string) int {
	if role != "add and revoke" {
		return 2
	}
	s, err := Open(Options{File: os.Args[1], Now: (&clock{start}).Now})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Close()
	for i := range rounds {
		g := lasting("", "make", os.Args[2], strconv.Itoa(i), strings.Repeat("x", 800))
		g.ExpireTime = timestamppb.New(start.AddDate(0, 0, 1))
		if err := patiently(func() error { return s.Add(here, g) }); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if i%2 == 0 {
			fmt.Println(g.GetId())
			continue
		}
		if err := patiently(func() error { _, err := s.Revoke(g.GetId()); return err }); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

const rounds = 30

// patiently tries again where others held the lock for too long: on a busy machine several writers take their time.
func patiently(try func() error) error {
	for range 20 {
		if err := try(); !errors.Is(err, ownfile.ErrLocked) {
			return err
		}
	}
	return try()
}

func TestFile_SharedBySupervisors(t *testing.T) {
	file := tempFile(t)
	self := testkit.Self(t)
	watching := open(t, Options{File: file, Now: (&clock{start}).Now})
	type result struct {
		ids    []string
		stderr string
		err    error
	}
	const children = 4
	results := make(chan result, children)
	for i := range children {
		cmd := exec.Command(self, file, strconv.Itoa(i))
		cmd.Env = append(os.Environ(), childRole+"=add and revoke")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			var r result
			for lines := bufio.NewScanner(out); lines.Scan(); {
				r.ids = append(r.ids, lines.Text())
			}
			r.err = cmd.Wait()
			r.stderr = stderr.String()
			results <- r
		}()
	}
	want := map[string]bool{}
	for range children {
		r := <-results
		if r.err != nil {
			t.Errorf("%v: %s", r.err, r.stderr)
		}
		for _, id := range r.ids {
			want[id] = true
		}
	}
	if t.Failed() {
		return
	}
	if list := watching.List(); len(list) > 0 {
		t.Errorf("%d grants of other processes hold before a reload", len(list))
	}
	if err := watching.Reload(); err != nil {
		t.Fatal(err)
	}
	list := watching.List()
	for _, g := range list {
		if !want[g.GetId()] {
			t.Errorf("%s should have been revoked", g.GetId())
		}
	}
	if len(list) != len(want) || len(want) != children*rounds/2 {
		t.Errorf("%d grants hold, of %d that were added", len(list), len(want))
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	// About 130 KB were written in all: what was revoked has been cleared away on the way.
	if info.Size() > compactAt+64<<10 {
		t.Errorf("the file has grown to %d bytes", info.Size())
	}
	if _, err := watching.Revoke("nosuchgrant0"); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
}
