//go:build amd64 || arm64

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// inspectedVar has the sandbox of this test binary decide on reads of files named "judged…" by their content.
const inspectedVar = "SANDBOX_TEST_INSPECTED"

// inspector allows reads of judged files whose content begins with "good". It replaces them before it answers.
type inspector struct{ Lists }

func inspectingDecider(o *Options, l Lists) Decider {
	o.Reads = true
	return inspector{l}
}

func isJudged(path string) bool { return strings.HasPrefix(filepath.Base(path), "judged") }

const inspectedBytes = 8

func (i inspector) Inspects(path string) int {
	if isJudged(path) {
		return inspectedBytes
	}
	return 0
}

func (i inspector) Allows(e Event) bool {
	if e.Operation != Read {
		return i.Lists.Allows(e)
	}
	if !isJudged(e.Path) {
		return true
	}
	_ = os.Rename(filepath.Join(filepath.Dir(e.Path), "other"), e.Path)
	return e.Inspected && strings.HasPrefix(string(e.Content), "good") && len(e.Content) <= inspectedBytes
}

func TestInspect_ProcessGetsTheJudgedFile(t *testing.T) {
	needsPrograms(t)
	for name, c := range map[string]struct{ files, script, want string }{
		"an allowed file":            {"judged=good", `cat judged; cat judged`, "good\ngood"},
		"replaced before the answer": {"judged=good other=bad", `cat judged; cat judged 2>/dev/null || echo refused`, "good\nrefused"},
		"a refused file":             {"judged=bad", `cat judged 2>/dev/null || echo refused`, "refused"},
		"replaced by an allowed one": {"judged=bad other=good", `cat judged 2>/dev/null || echo refused`, "refused"},
		"a long file":                {"judged=good-and-much-more", `cat judged; wc -c <judged`, "good-and-much-more\n19"},
		"by a link":                  {"judged=good other=bad", `ln -s judged l; cat l`, "good"},
		"a named pipe":               {"", `mkfifo judged; cat judged 2>/dev/null || echo refused`, "refused"},
		"a folder":                   {"", `mkdir judged; ls judged 2>/dev/null || echo refused`, "refused"},
		"it is written, too":         {"judged=good", `(exec 3<>judged) 2>/dev/null || echo refused`, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			for file := range strings.FieldsSeq(c.files) {
				name, content, _ := strings.Cut(file, "=")
				if err := os.WriteFile(filepath.Join(y.inside, name), []byte(content+"\n"), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			cmd := y.confined(t, "bash", "-c", c.script)
			cmd.Env = append(cmd.Env, inspectedVar+"=1")
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSpace(string(out)); got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}
