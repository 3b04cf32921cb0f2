package files

import (
	"os"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/paths"
)

func TestWrite_RejectsReplacingBinaryFile(t *testing.T) {
	ws := workspace(t)
	long := strings.Repeat("ä", readAhead)
	for name, old := range map[string]string{
		"latin 1":                       "caf\xe9\n",
		"UTF-16":                        "\xff\xfea\x00\n\x00",
		"UTF-16 without mark":           "a\x00\n\x00",
		"NUL":                           "a\x00b",
		"no text after many reads":      "a" + long + "\xff",
		"character that is cut":         "a" + long + "\xc3",
		"latin 1 between two reads":     strings.Repeat("a", readAhead-1) + "\xe9\xe9\xe9\xe9",
		"lead bytes only, of two reads": strings.Repeat("a", readAhead-1) + "\xc3\xc3",
	} {
		t.Run(name, func(t *testing.T) {
			path := put(t, ws+"/f", old)
			_, err := write(New(), in(ws), path, "new\n")
			if kindOf(err) != NotText || !strings.Contains(err.Error(), "convert it to UTF-8") {
				t.Errorf("got %v, want an error that states that the file is not UTF-8", err)
			}
			if got := contentOf(t, path); got != old {
				t.Errorf("the file changed: it holds %.40q", got)
			}
		})
	}
	t.Run("text with characters across reads", func(t *testing.T) {
		for shift := range 4 {
			path := put(t, ws+"/f", strings.Repeat("a", shift)+strings.Repeat("😀", readAhead/4+2))
			if _, err := write(New(), in(ws), path, "new\n"); err != nil {
				t.Errorf("shifted by %d: %v", shift, err)
			}
		}
	})
	wantNoLeftovers(t, ws)
}

func TestWrite_RejectsUnreadableContent(t *testing.T) {
	ws := workspace(t)
	for name, content := range map[string]string{"NUL": "with a \x00 in it", "no UTF-8": "\xff"} {
		if _, err := write(New(), in(ws), ws+"/f", content); kindOf(err) != NotText {
			t.Errorf("%s: got %v, want an error of the kind NotText", name, err)
		}
		if _, err := os.Lstat(ws + "/f"); err == nil {
			t.Errorf("%s: the file was made", name)
		}
	}
}

func TestWrite_DoesNotRecreateRoot(t *testing.T) {
	ws := workspace(t)
	root := ws + "/root"
	for _, path := range []string{root + "/f", root + "/sub/f"} {
		_, err := write(New(), in(root), path, "new\n")
		if kindOf(err) != Invalid || err.Error() != paths.RootMissing(root) {
			t.Errorf("%s: got %v, want %q", path, err, paths.RootMissing(root))
		}
	}
	if _, err := os.Lstat(root); err == nil {
		t.Error("the root was made again")
	}
}
