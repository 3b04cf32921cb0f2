// Command release makes the files that users install: archives, packages, images, modules, bills of materials, and
// their checksums. "make release" calls it, and docs/releasing.md describes the steps of a release.
//
// Everything is made from one commit, in a separate clone, so that files that are not committed cannot be included. The
// result depends only on the commit, the version, the Go toolchain and the modules in go.sum: the same inputs give the
// same bytes. This is a separate module, outside of go.work: no program of the project depends on the packaging tools.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
)

const usage = `usage: release build|check|files|images|tag -version v1.2.3 [flags]

build   makes a release of a commit, in a folder
check   builds for this machine twice, in different folders, the second time without any compiled package, and compares
files   writes the files of an image, whose layout is in -out, to standard output as a tar archive
images  makes images of the programs in -bin, which are for this machine, in -out: to try them before a release
tag     makes the commit of a release, whose modules need each other's versions, and its tags, in the repository
`

// options are the values of the flags.
type options struct {
	repo, commit, version string
	bin, out, key         string
	platforms             []platform
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, log io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	flags.SetOutput(log)
	o := options{}
	flags.StringVar(&o.repo, "repo", ".", "the repository")
	flags.StringVar(&o.commit, "commit", "HEAD", "the commit to release")
	flags.StringVar(&o.version, "version", "", "the version, for example v1.2.3 or v1.2.3-rc.1")
	flags.StringVar(&o.bin, "bin", "bin", "the folder of the programs that images are made of")
	flags.StringVar(&o.out, "out", "dist", "the folder to write; an existing release in it is replaced")
	flags.StringVar(&o.key, "key", "", "a key of ssh-keygen to sign the checksums by; none: they are not signed")
	platforms := flags.String("platforms", "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64", "what to build for")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	for _, name := range strings.Fields(*platforms) {
		p, err := parsePlatform(name)
		if err != nil {
			return err
		}
		o.platforms = append(o.platforms, p)
	}
	switch args[0] {
	case "build":
		return build(ctx, o, log)
	case "check":
		return check(ctx, o, log)
	case "files":
		return flatten(o.out, platform{"linux", runtime.GOARCH}, os.Stdout)
	case "images":
		return tryImages(ctx, o, log)
	case "tag":
		return tag(ctx, o, log)
	}
	return fmt.Errorf("there is no %q\n%s", args[0], usage)
}

// build makes a release, and moves it to its place when it is complete.
func build(ctx context.Context, o options, log io.Writer) error {
	if err := replaceable(o.out); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "acphost-release-")
	if err != nil {
		return fmt.Errorf("make a folder to work in: %w", err)
	}
	defer removeAll(work)
	src, err := prepare(ctx, o, filepath.Join(work, "src"))
	if err != nil {
		return err
	}
	made, err := filepath.Abs(o.out + ".new")
	if err != nil {
		return err
	}
	removeAll(made)
	defer removeAll(made)
	if err := makeRelease(ctx, src, o, filepath.Join(work, "tree"), made, log); err != nil {
		return err
	}
	removeAll(o.out)
	if err := os.Rename(made, o.out); err != nil {
		return fmt.Errorf("put the release in place: %w", err)
	}
	fmt.Fprintf(log, "%s of commit %s is in %s\n", src.version, src.commit, o.out)
	return nil
}

// makeRelease makes all files of src in the folder out, with temporary files in the folder work. Neither exists yet.
func makeRelease(ctx context.Context, src source, o options, work, out string, log io.Writer) error {
	step := func(format string, args ...any) { fmt.Fprintf(log, "release: "+format+"\n", args...) }
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make the folder for the release: %w", err)
	}
	step("modules")
	if err := src.writeModules(filepath.Join(out, "modules")); err != nil {
		return err
	}
	var trees []tree
	for _, p := range o.platforms {
		step("programs for %s", p)
		t, err := src.buildTree(ctx, p, filepath.Join(work, p.os+"_"+p.arch))
		if err != nil {
			return err
		}
		trees = append(trees, t)
	}
	step("manual pages, completions, licences")
	if err := src.nameLicences(ctx); err != nil {
		return err
	}
	shared, err := src.sharedFiles(ctx, trees, filepath.Join(work, "shared"))
	if err != nil {
		return err
	}
	for _, t := range trees {
		step("archive, packages and contents for %s", t.platform)
		name := filepath.Join(out, src.name(t.platform))
		bom, err := t.contents(src)
		if err == nil {
			err = os.WriteFile(name+".cdx.json", bom, 0o644) //nolint:gosec // a release is public
		}
		t.files = append(t.files, shared...)
		if err == nil {
			err = t.archive(src, name+".tar.gz")
		}
		if err == nil && t.platform.os == "linux" {
			err = t.packages(src, out)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.platform, err)
		}
	}
	var linux []tree
	for _, t := range trees {
		if t.platform.os == "linux" {
			linux = append(linux, t)
		}
	}
	step("packages for npm")
	if err := src.writeNPM(ctx, trees, shared, filepath.Join(work, "npm"), filepath.Join(out, "npm")); err != nil {
		return err
	}
	step("formula for Homebrew")
	if err := src.writeFormula(out, o.platforms); err != nil {
		return err
	}
	step("images")
	if err := src.writeImages(linux, shared, filepath.Join(work, "images"), filepath.Join(out, "images")); err != nil {
		return err
	}
	step("checksums")
	return checksums(ctx, out, o.key)
}

// check builds twice and compares. The folders differ in length, and the second build has an empty cache of compiled
// packages.
func check(ctx context.Context, o options, log io.Writer) error {
	o.platforms = []platform{{runtime.GOOS, runtime.GOARCH}}
	work, err := os.MkdirTemp("", "acphost-release-check-")
	if err != nil {
		return fmt.Errorf("make a folder to work in: %w", err)
	}
	defer removeAll(work)
	var sums [2][]byte
	for i, dir := range []string{filepath.Join(work, "one"), filepath.Join(work, "another", "and longer")} {
		src, err := prepare(ctx, o, filepath.Join(dir, "src"))
		if err != nil {
			return err
		}
		if i > 0 {
			src.cache = filepath.Join(dir, "cache")
		}
		out := filepath.Join(dir, "out")
		if err := makeRelease(ctx, src, o, filepath.Join(dir, "tree"), out, log); err != nil {
			return err
		}
		if sums[i], err = os.ReadFile(filepath.Join(out, sumsFile)); err != nil {
			return err
		}
	}
	if one, other := string(sums[0]), string(sums[1]); one != other {
		return fmt.Errorf("the same commit gave other bytes the second time\n--- first\n%s+++ second\n%s", one, other)
	}
	fmt.Fprintf(log, "twice the same bytes: %d files, sha256 of their checksums %x\n", strings.Count(string(sums[0]), "\n"), sha256.Sum256(sums[0]))
	return nil
}

// replaceable returns an error if a folder may contain something other than a release.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || (err == nil && len(entries) == 0) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the folder for the release: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, sumsFile)); err != nil {
		return fmt.Errorf("%s holds no release (there is no %s in it): name another folder, or remove it yourself", dir, sumsFile)
	}
	return nil
}

// removeAll removes a folder with read-only modules of the Go command.
func removeAll(dir string) { _ = os.RemoveAll(dir) }
