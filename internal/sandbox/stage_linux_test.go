//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit"
)

// stagedVar has the sandbox of this test binary decide on the content of some files when they are written: files named
// "staged…" are allowed if they begin with "good". It names the file to which rejections are written.
const stagedVar = "SANDBOX_TEST_STAGED"

type stager struct {
	Lists
	log *os.File
}

func stagingDecider(_ *Options, l Lists) Decider {
	file, err := os.OpenFile(os.Getenv(stagedVar), os.O_WRONLY|os.O_APPEND|unix.O_CLOEXEC, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(failed)
	}
	return stager{l, file}
}

func isStaged(e Event) bool {
	return e.Operation == Write && strings.HasPrefix(filepath.Base(e.Path), "staged") && e.Leaves == LeavesAny
}

func (s stager) AllowsStaged(e Event) (allowed, staged bool) {
	if isStaged(e) {
		return false, true
	}
	return s.Allows(e), false
}

func (s stager) Allows(e Event) bool {
	if !isStaged(e) {
		return s.Lists.Allows(e) && meanwhile(e)
	}
	if !e.Placed || !strings.HasPrefix(string(e.Content), "good") {
		fmt.Fprintf(s.log, "rejected %s placed %t\n", filepath.Base(e.Path), e.Placed)
		return false
	}
	return true
}

// meanwhile does what a process of another sandbox can do during a decision: it moves the folder of a file "raced", and
// makes a file in a folder that gets the name "to". It rejects the new name of the folder with this file.
func meanwhile(e Event) bool {
	switch folder, name := filepath.Split(e.Path); {
	case name == "raced" && e.Operation != Read:
		_ = os.Rename(filepath.Clean(folder), filepath.Clean(folder)+"2")
	case name == "to" && e.Operation == Move && e.Made:
		_, err := os.Lstat(filepath.Join(e.Path, "late"))
		return err != nil
	case name == "to" && e.Operation == Move && e.Leaves == LeavesAny:
		_ = os.WriteFile(filepath.Join(e.Others[0], "late"), nil, 0o600)
	}
	return true
}

func (s stager) Refused(_ int, what string) { fmt.Fprintf(s.log, "refused %s\n", what) }

func TestStaged_ContentIsDecidedWhenWritten(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		// want are the files afterwards, "NAME=CONTENT", and log the rejections.
		want, log string
	}{
		"a new file":           {`echo good >staged; cat staged >copy`, "copy=good\n staged=good\n", ""},
		"its content is bad":   {`echo bad >staged; test -e staged || echo none >copy`, "copy=none\n", "rejected staged placed true\n"},
		"several writes":       {`{ echo good; echo more; } >staged`, "staged=good\nmore\n", ""},
		"an old file":          {`echo good 2 >staged-old; cat staged-old`, "staged-old=good 2\n", ""},
		"an old file stays":    {`echo bad >staged-old`, "staged-old=old\n", "rejected staged-old placed true\n"},
		"appending":            {`echo good >>staged-old`, "staged-old=old\n", "rejected staged-old placed false\n"},
		"still open":           {`exec 3>staged; echo good >&3; test -e staged || echo none >copy; exec 3>&-; cat staged`, "copy=none\n staged=good\n", ""},
		"open until the end":   {`exec 3>staged; echo good >&3`, "staged=good\n", ""},
		"killed":               {`sh -c 'exec 3>staged; echo good >&3; kill -9 $$'; cat staged`, "staged=good\n", ""},
		"a child writes":       {`(exec 3>staged; echo good >&3; sh -c 'echo child >&3'); cat staged`, "staged=good\nchild\n", ""},
		"two files":            {`echo good >staged; echo good 2 >staged2; echo bad >staged3; cat staged staged2`, "staged=good\n staged2=good 2\n", "rejected staged3 placed true\n"},
		"exclusive":            {`set -C; echo good >staged; echo good 2 >staged; cat staged`, "staged=good\n", ""},
		"the folder moves":     {`mkdir d; exec 3>d/staged; echo good >&3; mv d e; exec 3>&-; ls e >copy`, "copy= e=", "refused a file in a folder that was moved or removed meanwhile: IN/d/staged\n"},
		"another moves it":     {`mkdir d; echo x >d/raced || ls d2 >copy`, "copy= d2=", ""},
		"another, mkdir":       {`mkdir d; mkdir d/raced || ls d2 >copy`, "copy= d2=", ""},
		"another, link":        {`mkdir d; echo y >y; ln y d/raced || ls d2 >copy; rm y`, "copy= d2=", ""},
		"another, rename":      {`mkdir d; echo y >y; mv y d/raced || ls d2 >copy`, "copy= d2= y=y\n", ""},
		"another makes a file": {`mkdir d; mv d to || ls d >copy`, "copy=late\n d=", ""},
		"by its descriptor":    {`exec 3>staged; echo good >&3; exec 4>>/proc/self/fd/3; exec 3>&-; cat staged >copy; echo bad >&4; exec 4>&-`, "copy=good\n staged=good\n", ""},
		"an executable":        {`umask 022; cp /bin/true x; sh -c 'echo good >staged; chmod 755 staged' ; rm x`, "staged=good\n", ""},
		"more than the most":   {`head -c 5000000 /dev/zero >staged`, "", "refused a file of more than 4 MiB whose content has to be decided on: IN/staged\n"},
		"nothing is written":   {`: >staged`, "", "rejected staged placed true\n"},
		"a link in its place":  {`ln -s other staged; echo good >staged; cat other`, "other=good\n staged=good\n", ""},
		"a name beside it":     {`echo x >x; ln x staged-x 2>/dev/null; rm -f x staged-x; echo good >staged`, "staged=good\n", "rejected staged-x placed false\n"},
		"git checks out files": {`git init -q r && cd r && git config user.name n && git config user.email e && echo good >staged && git add . && git commit -qm 1 && git rm -q staged && git commit -qm 2 && git switch -qd HEAD~ && git status --porcelain && mv staged ../staged-r; cd .. && rm -rf r`, "staged-r=good\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			needsPrograms(t)
			y := newYard(t)
			if strings.Contains(c.script, "old") {
				if err := os.WriteFile(filepath.Join(y.inside, "staged-old"), []byte("old\n"), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			log := filepath.Join(filepath.Dir(y.inside), "log")
			if err := os.WriteFile(log, nil, 0o666); err != nil {
				t.Fatal(err)
			}
			cmd := y.confined(t, "bash", "-c", c.script)
			cmd.Env = append(cmd.Env, stagedVar+"="+log)
			out, err := cmd.CombinedOutput()
			var got []string
			entries, _ := os.ReadDir(y.inside)
			for _, e := range entries {
				if e.Name() != ".env" {
					data, _ := os.ReadFile(filepath.Join(y.inside, e.Name()))
					got = append(got, e.Name()+"="+string(data))
				}
			}
			logged, _ := os.ReadFile(log)
			if text := strings.ReplaceAll(string(logged), y.inside, "IN"); strings.Join(got, " ") != c.want || text != c.log {
				t.Errorf("got %q, log %q, %v: %s\nwant %q, log %q", got, text, err, out, c.want, c.log)
			}
		})
	}
}

// TestStaged_LimitsFiles opens more staged files than may be open, and reaches the end: later ones are decided when
// they are opened.
func TestStaged_LimitsFiles(t *testing.T) {
	y := newYard(t)
	log := filepath.Join(filepath.Dir(y.inside), "log")
	if err := os.WriteFile(log, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := y.attack(t, "stages", y.inside, fmt.Sprint(maxStaged+3))
	cmd.Env = append(cmd.Env, stagedVar+"="+log)
	out, err := cmd.CombinedOutput()
	logged, _ := os.ReadFile(log)
	if names, _ := filepath.Glob(filepath.Join(y.inside, "staged*")); err != nil || len(names) != maxStaged || strings.Count(string(logged), "placed false") != 3 {
		t.Errorf("got %d files, %v: %s%s", len(names), err, out, logged)
	}
}

// openStages opens many files to be staged at the same time, and writes to all of them.
func openStages(dir, count string) int {
	var n int
	_, _ = fmt.Sscan(count, &n)
	var files []*os.File
	for i := range n {
		if f, err := os.Create(filepath.Join(dir, fmt.Sprintf("staged%03d", i))); err == nil {
			files = append(files, f)
		}
	}
	for _, f := range files {
		_, _ = f.WriteString("good")
		_ = f.Close()
	}
	// The last files are decided on when no further call is made, too.
	if !testkit.Poll(func() bool {
		names, _ := filepath.Glob(filepath.Join(dir, "staged*"))
		return len(names) == len(files)
	}) {
		return 1
	}
	return 0
}
