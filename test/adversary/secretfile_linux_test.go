package adversary

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/secretfile"
	"github.com/acphost/acphost/internal/secretfile/secrettest"
	"github.com/acphost/acphost/test/wire"
)

// TestSecretFiles_AreDecidedByNameAndContent reads each file of the corpus by the agent's call, by a process, and by a
// command line that names it.
func TestSecretFiles_AreDecidedByNameAndContent(t *testing.T) {
	t.Parallel()
	p := wire.NewPlace(t)
	files := secrettest.Files(t)
	paths := make([]string, len(files))
	var list bytes.Buffer
	for i, f := range files {
		// Each file has its own folder, because some names are those of folders.
		paths[i] = f.Under(p.Path("f"+strconv.Itoa(i)), p.Home)
		if err := os.MkdirAll(filepath.Dir(paths[i]), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(paths[i], f.Content, 0o600); err != nil {
			t.Fatal(err)
		}
		list.WriteString(paths[i] + "\n")
	}
	p.File(t, "list", list.String())
	s := openWalls(t, p)

	out := s.sh(`while read f; do if true <"$f"; then echo "read $f"; else echo "refused $f"; fi 2>/dev/null; done <list`)
	for i, f := range files {
		byName := f.Want == secretfile.Secret
		if want := map[bool]string{true: "refused ", false: "read "}[byName]; !strings.Contains(out, want+paths[i]+"\n") {
			t.Errorf("a process: %s: want %q", f.Path, want)
		}
		secret := byName || f.Want == secretfile.HoldsKey
		denies := func(answer wire.Message) bool {
			return answer.Error != nil && strings.Contains(answer.Error.Message, ": denied: ") &&
				!(strings.HasPrefix(f.Path, "~/") && strings.Contains(answer.Error.Message, "the user rejected this")) // it is outside
		}
		read := s.agent.Send("fs/read_text_file", params("path", paths[i])).Answer()
		if denied := denies(read); denied != secret {
			t.Errorf("fs/read_text_file: %s: denied %t, want %t: %.200s", f.Path, denied, secret, read.Raw)
		}
		run := s.agent.Send("terminal/create", params("command", "head", "args", []string{"-c1", paths[i]})).Answer()
		if denied := denies(run); denied != secret {
			t.Errorf("a command line: %s: denied %t, want %t: %.200s", f.Path, denied, secret, run.Raw)
		}
	}
	s.finish()
}
