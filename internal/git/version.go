package git

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Version is git's: 2.39.
type Version struct{ Major, Minor int }

// TakesSettings reports whether git takes settings from the environment, by which Quiet works: from 2.31 on.
func (v Version) TakesSettings() bool { return v.Major > 2 || v.Major == 2 && v.Minor >= 31 }

const (
	// maxProgram is the longest program, in bytes, in which its version is looked for.
	maxProgram = 64 << 20
	// maxVersions is how many files are remembered.
	maxVersions = 64
)

var versions = struct {
	sync.Mutex
	known map[fileID]known
}{known: map[fileID]known{}}

// fileID tells a file from others, and from itself as it was.
type fileID struct {
	device, inode uint64
	size          int64
	modified      time.Time
}

type known struct {
	version Version
	ok      bool
}

// VersionOf tells which version of git a program is, by what it calls itself ("git/2.39.5"), without running it. Not ok: that
// cannot be told, as of a script or of a program that starts another. Of macOS' own, which starts one of Xcode's or of the
// command line tools, it tells the oldest of these.
func VersionOf(program string) (Version, bool) {
	if runtime.GOOS == "darwin" && program == "/usr/bin/git" {
		return oldest(apples)
	}
	return versionOf(program)
}

// apples are what macOS' own git may start.
var apples = []string{"/Library/Developer/CommandLineTools/usr/bin/git", "/Applications/Xcode.app/Contents/Developer/usr/bin/git"}

// oldest is the oldest version of the programs that are there; not ok if that of any is not known.
func oldest(programs []string) (v Version, ok bool) {
	for _, program := range programs {
		if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		is, known := versionOf(program)
		if !known {
			return Version{}, false
		}
		if !ok || is.Major < v.Major || is.Major == v.Major && is.Minor < v.Minor {
			v, ok = is, true
		}
	}
	return v, ok
}

func versionOf(program string) (Version, bool) {
	info, err := os.Stat(program)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxProgram {
		return Version{}, false
	}
	st, isUnix := info.Sys().(*syscall.Stat_t)
	if !isUnix {
		return readVersion(program)
	}
	id := fileID{uint64(st.Dev), st.Ino, info.Size(), info.ModTime()} //nolint:unconvert // not so on every system
	versions.Lock()
	defer versions.Unlock()
	if k, ok := versions.known[id]; ok {
		return k.version, k.ok
	}
	v, ok := readVersion(program)
	if len(versions.known) >= maxVersions {
		clear(versions.known)
	}
	versions.known[id] = known{v, ok}
	return v, ok
}

func readVersion(program string) (Version, bool) {
	f, _, err := open(program)
	if err != nil {
		return Version{}, false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxProgram))
	if err != nil || bytes.HasPrefix(data, []byte("#!")) {
		return Version{}, false
	}
	found, ok := Version{}, false
	for rest := data; ; {
		_, after, more := bytes.Cut(rest, []byte("git/"))
		if !more {
			return found, ok
		}
		rest = after
		v, is := parseVersion(after)
		switch {
		case !is:
		case ok && v != found: // it may be either
			return Version{}, false
		default:
			found, ok = v, true
		}
	}
}

// parseVersion reads "2.39.5", up to what ends it.
func parseVersion(text []byte) (v Version, ok bool) {
	text = text[:min(len(text), 64)]
	end := bytes.IndexByte(text, 0)
	if end < 0 {
		return v, false
	}
	parts := bytes.SplitN(text[:end], []byte("."), 3)
	if len(parts) < 2 {
		return v, false
	}
	var err, err2 error
	v.Major, err = strconv.Atoi(string(parts[0]))
	v.Minor, err2 = strconv.Atoi(string(parts[1]))
	return v, err == nil && err2 == nil && v.Major > 0 && v.Minor >= 0
}
