package layers

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"

	"github.com/acphost/acphost/services/permd/internal/policy"
)

const (
	// maxFile limits a rule file, in bytes.
	maxFile = 1 << 20
	// maxVersions limits the versions of one file that apply at once.
	maxVersions = 16
	// maxKept limits the versions of all files together, in bytes: a supervisor keeps up to 32 MiB of a handler.
	maxKept = 16 << 20
)

// source is a rule file and its versions since it was loaded. It is guarded by the mu of Files.
type source struct {
	path  string // absolute; empty: it cannot change
	name  string // for people
	layer permissionv1.Layer
	// optional: the file may be missing.
	optional bool
	// fromWorkspace: the file was not named in the configuration. It is opened without following links, and may only
	// tighten the rules unless it is trusted.
	fromWorkspace bool
	trusted       map[string]string

	lastStat   fileStat
	checked    bool
	versions   []version // the version in force, and later ones
	unreadable bool
	overflow   bool
	reported   string // the last problem that was reported
}

// version is the content of a file at some time.
type version struct {
	policy  *policy.Policy // nil: there was no file
	layer   permissionv1.Layer
	content []byte
}

// fileStat identifies a state of a file, to detect changes.
type fileStat struct {
	exists      bool
	size        int64
	modified    int64
	inode, ctim uint64
}

func (s *source) part(i int) policy.Part {
	return policy.Part{Policy: s.versions[i].policy, Name: s.name, Layer: s.versions[i].layer}
}

// load reads the file for the first time.
func (s *source) load(env policy.Surroundings) error {
	s.lastStat, s.checked = statFile(s.path, s.fromWorkspace), true
	if !s.lastStat.exists && s.optional {
		s.versions = append(s.versions, version{layer: s.layer})
		return nil
	}
	v, err := s.read(env)
	if err != nil {
		return err
	}
	s.versions = append(s.versions, v)
	return nil
}

// size returns the number of bytes kept of the file.
func (s *source) size() (n int) {
	for _, v := range s.versions {
		n += len(v.content)
	}
	return n
}

// refresh checks the file for a change, and reports whether there is more to keep of it than before. A usable new
// version applies from now on, in addition to the previous ones. room is the number of bytes that can still be kept.
func (s *source) refresh(env policy.Surroundings, room int, log *slog.Logger) (more bool) {
	if s.path == "" {
		return false
	}
	now := statFile(s.path, s.fromWorkspace)
	if s.checked && now == s.lastStat {
		return false
	}
	first := !s.checked
	s.lastStat, s.checked = now, true
	if !now.exists {
		if !first && len(s.versions) > 0 && s.versions[0].policy != nil {
			s.report(log, "a rule file is gone; its rules stay in force until the policy is loaded again", nil)
		}
		s.unreadable = false
		return false
	}
	read, err := s.read(env)
	if err != nil {
		s.unreadable = true
		s.report(log, "a rule file cannot be used; the previous rules stay in force", err)
		return false
	}
	s.unreadable, s.reported = false, ""
	if slices.ContainsFunc(s.versions, func(v version) bool {
		return v.policy != nil && v.policy.Digest() == read.policy.Digest() && v.layer == read.layer
	}) {
		return false
	}
	switch {
	case len(s.versions) >= maxVersions || len(read.content) > room:
		more = !s.overflow
		s.overflow = true
		s.report(log, "a rule file has changed too often: everything is asked until the policy is loaded again", nil)
		return more
	case len(s.versions) > 0:
		log.Warn("a rule file has changed: stricter rules apply now, looser rules after a reload", "file", s.name)
	case s.fromWorkspace:
		log.Info("a workspace has its own rules", "file", s.name, "rules", read.policy.Rules(),
			"trusted", read.layer == permissionv1.Layer_LAYER_WORKSPACE_TRUSTED)
	}
	s.versions = append(s.versions, read)
	return true
}

// report logs a problem once.
func (s *source) report(log *slog.Logger, what string, err error) {
	text := what
	if err != nil {
		text += err.Error()
	}
	if s.reported == text {
		return
	}
	s.reported = text
	attrs := []any{"file", s.name}
	if err != nil {
		attrs = append(attrs, "error", err)
	}
	log.Warn(what, attrs...)
}

// read reads and compiles the file.
func (s *source) read(env policy.Surroundings) (version, error) {
	data, err := readFile(s.path, s.fromWorkspace)
	if err != nil {
		return version{}, err
	}
	p, err := policy.Parse(s.name, data, env)
	if err != nil {
		return version{}, err
	}
	v := version{p, s.layer, data}
	if s.fromWorkspace {
		sum := sha256.Sum256(data)
		if real, err := filepath.EvalSymlinks(s.path); err == nil && s.trusted[real] == hex.EncodeToString(sum[:]) {
			v.layer = permissionv1.Layer_LAYER_WORKSPACE_TRUSTED
		}
	}
	return v, nil
}

// statFile returns the state of a file. If the state cannot be read, the file counts as existing, so that reading it
// reports the reason. A link in place of a workspace's rule file counts as existing wherever it leads: a workspace's
// owner must not learn which files exist elsewhere.
func statFile(path string, fromWorkspace bool) fileStat {
	if fromWorkspace && (isLink(filepath.Dir(path)) || isLink(path)) {
		return fileStat{exists: true}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fileStat{}
	case err != nil:
		return fileStat{exists: true}
	}
	st := fileStat{exists: true, size: info.Size(), modified: info.ModTime().UnixNano()}
	st.inode, st.ctim = identity(info)
	return st
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().Type() == fs.ModeSymlink
}

// openFile opens a rule file without blocking. It opens a workspace's file only inside its workspace: neither the file
// nor its folder may be a link to another place, which this process may be able to read and the workspace's owner not.
func openFile(path string, fromWorkspace bool) (*os.File, error) {
	const flags = os.O_RDONLY | syscall.O_NONBLOCK
	if !fromWorkspace {
		return os.OpenFile(path, flags, 0)
	}
	dir := filepath.Dir(path)
	if isLink(dir) {
		return nil, fmt.Errorf("%s is a link to another folder", dir)
	}
	workspace, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	defer func() { _ = workspace.Close() }()
	// A link that replaces the folder now is followed only within the workspace.
	folder, err := workspace.OpenRoot(filepath.Base(dir))
	if err != nil {
		return nil, err
	}
	defer func() { _ = folder.Close() }()
	if info, err := folder.Lstat(filepath.Base(path)); err == nil && info.Mode().Type() == fs.ModeSymlink {
		return nil, fmt.Errorf("%s is a link to another file", path)
	}
	return folder.OpenFile(filepath.Base(path), flags|syscall.O_NOFOLLOW, 0)
}

// readFile reads a rule file: a regular file of limited size that is not writable by others.
func readFile(path string, fromWorkspace bool) ([]byte, error) {
	f, err := openFile(path, fromWorkspace)
	if err != nil {
		return nil, fmt.Errorf("read the rule file: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the rule file: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("read the rule file: %s is not a regular file", path)
	case !fromWorkspace && info.Mode().Perm()&0o002 != 0:
		return nil, fmt.Errorf("read the rule file: all users may write %s: remove that permission (chmod o-w)", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the rule file: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("read the rule file: %s is over %d bytes", path, maxFile)
	}
	return data, nil
}
