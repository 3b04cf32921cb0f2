package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// programs are the packages of the released programs. acphost looks for the handlers, and for the agent of "acphost
// demo", in its own folder.
var programs = []string{
	"./services/supervisor/cmd/acphost", "./services/fsd", "./services/termd", "./services/permd", "./services/gatewayd",
	"./sdk/cmd/acphost-conformance", "./examples/demoagent",
}

// platform is a system and a processor, by Go's names.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

func parsePlatform(name string) (platform, error) {
	system, arch, ok := strings.Cut(name, "/")
	if !ok || system == "" || arch == "" {
		return platform{}, fmt.Errorf("%q is no platform such as linux/amd64", name)
	}
	return platform{system, arch}, nil
}

// file is a file of the release: its path below a prefix such as /usr, and the path of its contents.
type file struct {
	name string // with slashes
	from string
	mode os.FileMode
}

// tree is the set of files for a platform.
type tree struct {
	platform platform
	files    []file
}

// buildTree builds the programs into dir.
func (s source) buildTree(ctx context.Context, p platform, dir string) (tree, error) {
	t := tree{platform: p}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return t, err
	}
	if err := s.goBuild(ctx, p, dir, programs...); err != nil {
		return t, err
	}
	for _, pkg := range programs {
		name := path.Base(pkg)
		t.files = append(t.files, file{"bin/" + name, filepath.Join(dir, name), 0o755})
	}
	return t, nil
}

// goBuild builds packages into dir, independent of the folder and the user.
func (s source) goBuild(ctx context.Context, p platform, dir string, packages ...string) error {
	args := append([]string{
		"build", "-trimpath", "-buildvcs=true", "-ldflags", "-s -w -X main.version=" + s.version, "-o", dir + string(filepath.Separator),
	}, packages...)
	_, err := output(ctx, s.dir, s.goEnv("GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0"), "go", args...)
	return err
}

// goEnv returns the environment of the Go command, without settings of the user.
func (s source) goEnv(more ...string) []string {
	env := append([]string{"CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=" + filepath.Join(s.dir, "go.work"), "GODEBUG="}, more...)
	if s.cache != "" {
		env = append(env, "GOCACHE="+s.cache)
	}
	return env
}

// completions are the paths of shells' completions, below a prefix.
var completions = map[string]string{
	"bash": "share/bash-completion/completions/acphost",
	"zsh":  "share/zsh/site-functions/_acphost",
	"fish": "share/fish/vendor_completions.d/acphost.fish",
}

// documents is the path of the documentation, below a prefix.
const documents = "share/doc/acphost/"

// sharedFiles makes in dir the files that are the same on every platform: manual pages, completions, documents,
// licenses.
func (s source) sharedFiles(ctx context.Context, trees []tree, dir string) ([]file, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	acphost, err := s.runnable(ctx, trees, dir)
	if err != nil {
		return nil, err
	}
	var files []file
	add := func(name, from string) { files = append(files, file{name, from, 0o644}) }
	write := func(name string, text []byte) error {
		from := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		add(name, from)
		return os.WriteFile(from, text, 0o644) //nolint:gosec // a release is public
	}
	plain := []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "LC_ALL=C"}
	manual := filepath.Join(dir, "man1")
	if _, err := output(ctx, dir, plain, acphost, "man", manual); err != nil {
		return nil, err
	}
	written, err := os.ReadDir(manual)
	if err != nil {
		return nil, err
	}
	for _, page := range written {
		add("share/man/man1/"+page.Name(), filepath.Join(manual, page.Name()))
	}
	for shell, name := range completions {
		script, err := output(ctx, dir, plain, acphost, "completion", shell)
		if err == nil {
			err = write(name, []byte(script+"\n"))
		}
		if err != nil {
			return nil, err
		}
	}
	pages, err := s.pages(ctx, dir)
	if err != nil {
		return nil, err
	}
	files = append(files, pages...)
	licences, err := s.licences(ctx, trees)
	if err == nil {
		err = write(documents+"THIRD_PARTY_LICENSES", licences)
	}
	return files, err
}

// runnable returns an acphost that runs on this machine. It builds one if none is in the trees.
func (s source) runnable(ctx context.Context, trees []tree, dir string) (string, error) {
	here := platform{runtime.GOOS, runtime.GOARCH}
	for _, t := range trees {
		if t.platform == here {
			return t.files[0].from, nil
		}
	}
	return filepath.Join(dir, "acphost"), s.goBuild(ctx, here, dir, programs[0])
}

// licences returns the licenses of all modules in the programs, each under the module's name and version.
func (s source) licences(ctx context.Context, trees []tree) ([]byte, error) {
	used := map[string]bool{}
	for _, t := range trees {
		for _, f := range t.files {
			info, err := buildinfo.ReadFile(f.from)
			if err != nil {
				return nil, err
			}
			for _, m := range info.Deps {
				used[m.Path] = true
			}
		}
	}
	dirs, err := s.moduleDirs(ctx)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	text.WriteString("Programs of acphost have in them the modules below, and Go's standard library, under these licences.\n")
	write := func(name, dir string) error {
		texts, err := licenceFiles(name, dir)
		if err != nil {
			return err
		}
		for _, file := range texts {
			licence, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			fmt.Fprintf(&text, "\n=== %s: %s\n\n%s\n", name, filepath.Base(file), bytes.TrimSpace(licence))
		}
		return nil
	}
	if err := write("Go", dirs["std"].dir); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(dirs)) {
		if name == "std" || !used[name] || isOwn(name) {
			continue
		}
		if err := write(name+" "+dirs[name].version, dirs[name].dir); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}
