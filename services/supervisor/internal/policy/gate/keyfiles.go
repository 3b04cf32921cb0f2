package gate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/acphost/acphost/internal/paths"
)

// maxKeyFiles limits the files of Protect, because each path is compared with each of them.
const maxKeyFiles = 256

// keyFile is a file with a secret, identified by its names and by its identity.
type keyFile struct {
	asked, real string // clean; with links resolved when it was named
	info        os.FileInfo
}

// ErrFolder means that the path of a key file is a folder. Protecting it would keep all its contents from agents, and it may be "/".
var ErrFolder = errors.New("is a folder: give a file that holds nothing but the key")

// Protect keeps files from all agents for the lifetime of the Gate. Callers name files that hold secrets while a supervisor runs. A file is
// recognised by its name, by the targets of its links then and now, and by its identity: also through other links, and after a folder on
// its path was renamed. The file need not exist. If there are too many files, those that no longer exist are dropped. Devices are ignored:
// "/dev/null" holds no secret, and commands need it. fresh: at least one file was new. The error is ErrFolder, or says that there are too
// many files; no file is added then.
func (g *Gate) Protect(files ...string) (fresh bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.keyFiles()
	keys := slices.Clone(before)
	for _, file := range files {
		k := keyFile{asked: filepath.Clean(file)}
		k.real = paths.Real(k.asked)
		if info, err := os.Stat(k.asked); err == nil {
			switch {
			case info.IsDir():
				return false, fmt.Errorf("%s %w", k.asked, ErrFolder)
			case info.Mode()&os.ModeDevice != 0:
				continue
			}
			k.info = info
		}
		if slices.ContainsFunc(keys, k.same) {
			continue
		}
		if len(keys) >= maxKeyFiles { // callers may create a file for each agent, and remove it again
			keys = slices.DeleteFunc(keys, keyFile.gone)
		}
		if len(keys) >= maxKeyFiles {
			return false, fmt.Errorf("more than %d files with keys were named, which is more than can be kept from agents: take some of them again, or put keys together", maxKeyFiles)
		}
		keys, fresh = append(keys, k), true
	}
	g.keys.Store(&keys)
	g.changed()
	return fresh, nil
}

func (g *Gate) keyFiles() []keyFile {
	if keys := g.keys.Load(); keys != nil {
		return *keys
	}
	return nil
}

// gone reports whether no file exists by any of the known names.
func (k keyFile) gone() bool {
	for _, name := range [...]string{k.asked, k.real} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// same reports whether two entries are the same file.
func (k keyFile) same(o keyFile) bool {
	return k.asked == o.asked && k.real == o.real && (k.info == nil) == (o.info == nil) && (k.info == nil || k.was(o.info))
}

// was reports whether a file is the one that was named. A later file with the same inode number is a different file.
func (k keyFile) was(now os.FileInfo) bool {
	return k.info != nil && os.SameFile(k.info, now) && k.info.Size() == now.Size() && k.info.ModTime().Equal(now.ModTime())
}

// covers reports whether a clean path is, or lies below, one of acphost's own files, by names only.
func (g *Gate) covers(path string) bool {
	covers := func(own string) bool { return paths.Below(own, path) }
	return slices.ContainsFunc(g.protected, covers) || g.keyNamed(covers) != ""
}

// keyNamed returns the first name of a key file, as given or resolved, for which a condition holds; empty: none.
func (g *Gate) keyNamed(holds func(name string) bool) string {
	for _, k := range g.keyFiles() {
		for _, name := range [...]string{k.asked, k.real} {
			if holds(name) {
				return name
			}
		}
	}
	return ""
}

// isKey reports whether a path leads to a key file, by any name.
func (g Sight) isKey(path string) bool {
	keys := g.keyFiles()
	if len(keys) == 0 {
		return false
	}
	if real := g.seen.Real(path); real != path && g.keyNamed(func(key string) bool { return paths.Below(key, real) }) != "" {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && slices.ContainsFunc(keys, func(k keyFile) bool {
		if k.was(info) {
			return true
		}
		now, err := os.Stat(k.asked) // the key may have been replaced
		return err == nil && os.SameFile(now, info)
	})
}

// applyOwnRules changes a policy's allowance to Ask if acphost's own rules do not allow the action.
func (g *Gate) applyOwnRules(r Request, d *Decision) {
	if d.Verdict != Allow || d.By != ByPolicy {
		return
	}
	if own := g.Behind(r.Action); own != nil {
		d.Verdict, d.Rule, d.Reason, d.Grantable, d.Unattended = own.Verdict, own.Rule, own.Reason, false, Deny
	}
}
