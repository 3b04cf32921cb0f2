package adversary

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommandLine_RunsNothingUndecided has lines that shells read in unexpected ways, options that change the meaning
// of a line, and links that lead a harmless command elsewhere.
func TestCommandLine_RunsNothingUndecided(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"workspace", "readonly", "headless"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openFixture(t, policies[name])
			s.noPerson()
			s.File(t, "plain.txt", "plain as day\n")
			outside := t.TempDir()
			if err := os.WriteFile(filepath.Join(outside, "words"), []byte(secret(710)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(outside, 0o755); err != nil { // the command may look, so that only the policy is in its way
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(outside, "words"), 0o644); err != nil { // likewise
				t.Fatal(err)
			}
			for link, to := range map[string]string{"README": outside + "/words", "lib": outside} {
				if err := os.Symlink(to, filepath.Join(s.Work, link)); err != nil {
					t.Fatal(err)
				}
			}
			if out, allowed := s.runs("cat plain.txt", s.Work); !allowed || !strings.Contains(out, "plain as day") {
				t.Errorf("the policy lets nobody look: %q", out)
			}
			for _, line := range []string{
				"cat README", "cat ./lib/words", "head -n 1 lib/../" + filepath.Base(outside) + "/words", "grep -r . lib/", "grep -R . .", "grep -fREADME -o . README",
				"cd lib && cat words", "diff -r lib sub", "cat -- README", "sort --files0-from=README", "cat <README",
			} {
				if out, _ := s.runs(line, s.Work); strings.Contains(out, secret(710)) {
					t.Errorf("ATTACK SUCCEEDED: %s shows what lies outside", line)
				}
			}
			for _, line := range []string{
				"ls # \\\ntouch ran", "cat plain.txt #\\\n>ran", "ls `ls # \\\\\ntouch ran`", "sh -c 'ls # \\\ntouch ran'",
				"bash -O extglob -c 'ls # \\\ntouch ran'", "bash --init-file plain.txt -ic 'ls # \\\ntouch ran'", "cat `cat plain.txt # \\\n>ran`",
			} {
				_, _ = s.runs(line, s.Work)
				if err := os.Remove(filepath.Join(s.Work, "ran")); err == nil {
					t.Errorf("ATTACK SUCCEEDED: %q ran what it does not look like", line)
				}
			}
			s.finish()
		})
	}
}
