package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// source is a clone of the repository, at the released commit.
type source struct {
	dir     string    // absolute
	version string    // v1.2.3
	commit  string    // 40 hexadecimal digits: of the release's commit, see prepare
	time    time.Time // of the commit; used in all files of the release
	modules []released
	// licenceOf has the SPDX identifiers of the licenses of modules, by path. nameLicences sets it.
	licenceOf map[string][]string
	cache     string // the cache of compiled packages; empty: the Go command's default
}

// prepare clones the repository into dir, which does not exist, at o.commit, and makes the commit of the release on
// top: in the go.mod of each released module, the other modules have the version, and there are no replacements. That
// commit depends only on its parent and the version, so it is the same on every machine. If o.commit is such a commit
// already, prepare uses it.
func prepare(ctx context.Context, o options, dir string) (source, error) {
	if !semver.IsValid(o.version) || semver.Canonical(o.version) != o.version {
		return source{}, fmt.Errorf("%q is no version such as v1.2.3 or v1.2.3-rc.1: name one, make release VERSION=v1.2.3", o.version)
	}
	s := source{version: o.version}
	repo, err := filepath.Abs(o.repo)
	if err != nil {
		return s, err
	}
	if s.dir, err = filepath.Abs(dir); err != nil {
		return s, err
	}
	commit, err := output(ctx, repo, nil, "git", "rev-parse", "--verify", "--end-of-options", o.commit+"^{commit}")
	if err != nil {
		return s, err
	}
	// Without tags, because the Go command records a commit's tag in a program.
	if _, err := output(ctx, repo, nil, "git", "clone", "--quiet", "--no-tags", "--shared", "--no-checkout", repo, s.dir); err != nil {
		return s, err
	}
	if _, err := output(ctx, s.dir, nil, "git", "checkout", "--quiet", "--detach", commit); err != nil {
		return s, err
	}
	by, err := output(ctx, s.dir, nil, "git", "log", "-1", "--format=%cn%n%ce%n%ct%n%cI")
	if err != nil {
		return s, err
	}
	authors := strings.Split(by, "\n")
	if len(authors) != 4 {
		return s, fmt.Errorf("the commit %s has no committer and time: %q", commit, by)
	}
	if s.time, err = time.Parse(time.RFC3339, authors[3]); err != nil {
		return s, fmt.Errorf("read the time of the commit %s: %w", commit, err)
	}
	s.time = s.time.UTC()
	if err := s.nameModules(ctx); err != nil {
		return s, err
	}
	if _, err := output(ctx, s.dir, nil, "git", "diff", "--cached", "--quiet"); err != nil {
		date := "@" + authors[2] + " +0000"
		same := []string{
			"GIT_AUTHOR_NAME=" + authors[0], "GIT_AUTHOR_EMAIL=" + authors[1], "GIT_AUTHOR_DATE=" + date,
			"GIT_COMMITTER_NAME=" + authors[0], "GIT_COMMITTER_EMAIL=" + authors[1], "GIT_COMMITTER_DATE=" + date,
		}
		if _, err := output(ctx, s.dir, same, "git", "-c", "commit.gpgSign=false", "-c", "core.hooksPath=/dev/null", "commit", "--quiet",
			"--message", "Release "+s.version+"\n\nThe modules need each other's versions, and nothing is replaced."); err != nil {
			return s, err
		}
	}
	s.commit, err = output(ctx, s.dir, nil, "git", "rev-parse", "HEAD")
	return s, err
}

// name returns the common beginning of the release's file names for a platform.
func (s source) name(p platform) string {
	return "acphost_" + strings.TrimPrefix(s.version, "v") + "_" + p.os + "_" + p.arch
}

// tag makes the commit of the release and its tags in the repository, one for each module. The tag of the root module
// is also the tag of the release.
func tag(ctx context.Context, o options, log io.Writer) error {
	work, err := os.MkdirTemp("", "acphost-release-")
	if err != nil {
		return fmt.Errorf("make a folder to work in: %w", err)
	}
	defer removeAll(work)
	src, err := prepare(ctx, o, filepath.Join(work, "src"))
	if err != nil {
		return err
	}
	var specs []string
	for _, m := range src.modules {
		specs = append(specs, src.commit+":refs/tags/"+m.tag(src.version))
	}
	// Without force: if a tag exists at another commit, none is made.
	args := append([]string{"fetch", "--quiet", "--atomic", "--no-tags", src.dir}, specs...)
	if _, err := output(ctx, o.repo, nil, "git", args...); err != nil {
		return fmt.Errorf("make the tags of %s; a version that has been tagged keeps its commit, take the next one: %w", src.version, err)
	}
	fmt.Fprintf(log, "tagged %s as %s; publish: git push --atomic origin", src.commit, src.version)
	for _, spec := range specs {
		_, ref, _ := strings.Cut(spec, ":refs/tags/")
		fmt.Fprintf(log, " %s", ref)
	}
	fmt.Fprintln(log)
	return nil
}

// output runs a command and returns its output without surrounding space.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s in %s: %w", cmd, dir, errors.Join(err, errors.New(strings.TrimSpace(stderr.String()))))
	}
	return strings.TrimSpace(string(out)), err
}
