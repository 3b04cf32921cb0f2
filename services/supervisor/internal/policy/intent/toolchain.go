package intent

import (
	"cmp"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/acphost/acphost/internal/regular"
)

// maxModule bounds the part of a go.mod that is read, in bytes.
const maxModule = 1 << 20

// installedGo is the version of the installed go, "go1.26.1"; empty if unknown.
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

// oneGo reports whether no module or workspace at or above a folder requires a newer go than the installed version,
// which go would download.
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

// modulesOfGo returns go's module cache; empty if it is unknown, or if go's settings may cause downloads beyond the
// modules that a module requires.
func modulesOfGo() string {
	config, err := os.UserConfigDir()
	if err != nil || os.Getenv("GOFLAGS") != "" || os.Getenv("GOENV") != "" {
		return ""
	}
	if settings, err := regular.Read(filepath.Join(config, "go", "env"), maxModule); err == nil &&
		(strings.Contains(string(settings), "GOFLAGS") || strings.Contains(string(settings), "MODCACHE") || strings.Contains(string(settings), "GOPATH")) {
		return ""
	}
	if cache := os.Getenv("GOMODCACHE"); cache != "" {
		return cache
	}
	home, _ := os.UserHomeDir()
	first, _, _ := strings.Cut(cmp.Or(os.Getenv("GOPATH"), filepath.Join(home, "go")), ":")
	return filepath.Join(first, "pkg", "mod")
}

// modulesAtHand reports whether a folder is in a module without a workspace, and without replacements, and all modules
// that it requires are in cache, go's module cache.
func modulesAtHand(dir, cache string) bool {
	if !filepath.IsAbs(dir) || !filepath.IsAbs(cache) || os.Getenv("GOWORK") != "" {
		return false
	}
	var wanted string
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, "go.work")); err == nil {
			return false
		}
		if mod := filepath.Join(at, "go.mod"); wanted == "" {
			if data, err := regular.Read(mod, maxModule); err == nil {
				wanted = string(data) + "\n"
			} else if _, err := os.Lstat(mod); err == nil {
				return false
			}
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	within := ""
	for line := range strings.Lines(wanted) {
		line, _, _ := strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case within != "" && words[0] == ")":
			within = ""
		case len(words) == 2 && words[1] == "(" && within == "":
			within = words[0]
		case within == "require" && len(words) == 2:
			if !downloaded(cache, words[0], words[1]) {
				return false
			}
		case within == "" && words[0] == "require" && len(words) == 3:
			if !downloaded(cache, words[1], words[2]) {
				return false
			}
		case within == "" && len(words) == 2 && (words[0] == "module" || words[0] == "go" || words[0] == "toolchain"):
		default:
			return false
		}
	}
	return wanted != "" && within == ""
}

// downloaded reports whether go's cache contains a module.
func downloaded(cache, module, version string) bool {
	if strings.Trim(module, "abcdefghijklmnopqrstuvwxyz0123456789._~/-") != "" || strings.Contains(module, "..") || strings.ContainsAny(version, "/\\") {
		return false // its name is escaped in the cache
	}
	at := filepath.Join(cache, "cache", "download", module, "@v", version)
	for _, end := range []string{".mod", ".zip"} {
		if info, err := os.Lstat(at + end); err != nil || !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}
