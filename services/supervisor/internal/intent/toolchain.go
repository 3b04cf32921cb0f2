package intent

import (
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/acphost/acphost/internal/regular"
)

// maxModule is how much of a go.mod is read.
const maxModule = 1 << 20

// installedGo is the version of the go that is installed, "go1.26.1"; empty if that is not known.
var installedGo = sync.OnceValue(func() string {
	program, err := exec.LookPath("go")
	if err != nil {
		return ""
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		return ""
	}
	data, err := regular.Read(filepath.Join(filepath.Dir(program), "../VERSION"), maxModule)
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSpace(first)
})

// oneGo reports whether no module or workspace at or above a folder wants a newer go than the installed version: go would
// download it.
func oneGo(dir, installed string) bool {
	if !filepath.IsAbs(dir) {
		return false
	}
	for {
		for _, name := range []string{"go.mod", "go.work"} {
			file := filepath.Join(dir, name)
			data, err := regular.Read(file, maxModule)
			if err != nil {
				if _, err := os.Lstat(file); err != nil {
					continue
				}
				return false
			}
			for line := range strings.Lines(string(data)) {
				line, _, _ = strings.Cut(line, "//")
				words := strings.Fields(line)
				switch {
				case len(words) == 0 || words[0] != "go" && words[0] != "toolchain":
				case len(words) != 2:
					return false
				case words[0] == "toolchain" && words[1] == "default":
				default:
					wanted := "go" + strings.TrimPrefix(words[1], "go")
					if strings.Contains(wanted, "-") || !version.IsValid(wanted) || version.Compare(wanted, installed) > 0 {
						return false
					}
				}
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}
