package preset

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/ownfile"
)

// The kinds of distribution.
const (
	KindNPX    = "npx"
	KindUVX    = "uvx"
	KindBinary = "binary"
)

// Where an agent was found.
const (
	FoundOnPath   = "path"
	FoundInCache  = "npx cache"
	FoundAsTool   = "uv tool"
	FoundInFolder = "folder"
)

// Resolved is an agent and how it is run on this machine.
type Resolved struct {
	Agent Agent
	// Kind is the distribution that was chosen.
	Kind string
	// Found is where it is installed, one of the constants; empty: it is not.
	Found string
	// Installed is the version that is installed, which need not be the manifest's; empty: not known.
	Installed string
	// Command is the command line, the program an absolute path. It is empty as long as the agent has to be fetched or got
	// first; a package of uvx is fetched by its command itself.
	Command []string
	// Env is added to the environment: "NAME=VALUE", the distribution's in order, then the defaults.
	Env []string
	// Get is what a person does to install the agent.
	Get string

	program []string // the command without its arguments
	fetch   []string // puts the agent where it is found; nil: nothing does
	env     func(string) string
}

// Login returns the command line that lets a person log in to the agent; nil: it is not known, or the agent is not there.
func (r *Resolved) Login() []string {
	if r.Agent.Own.Login == nil || len(r.program) == 0 {
		return nil
	}
	return slices.Concat(r.program, r.Agent.Own.Login)
}

// NotInstalledError says that an agent is not on this machine.
type NotInstalledError struct {
	// ID is the agent, Get how to get it.
	ID, Get string
}

// Error says what to do.
func (e *NotInstalledError) Error() string {
	return fmt.Sprintf("the agent %s is not installed; get it with: %s", e.ID, e.Get)
}

// Resolve finds out how an agent is run here: by what is installed of it, else by what would fetch it. It reads the file
// system only, and never the working directory. The error says that this machine has no way to run it at all.
func (c *Catalog) Resolve(name string) (*Resolved, error) {
	a, err := c.Find(name)
	if err != nil {
		return nil, err
	}
	return c.resolve(a)
}

func (c *Catalog) resolve(a Agent) (*Resolved, error) {
	var ways []*Resolved
	d := a.Distribution
	if d.NPX != nil {
		ways = append(ways, c.npx(d.NPX))
	}
	if d.UVX != nil {
		ways = append(ways, c.uvx(d.UVX))
	}
	if b := d.Binary[Platform()]; b != nil {
		ways = append(ways, c.binary(a.ID, b))
	}
	if len(ways) == 0 {
		return nil, fmt.Errorf("the agent %s does not come in a form for %s that is known here (npx, uvx, binary)", a.ID, Platform())
	}
	// The first of those with the highest rank.
	best := slices.MaxFunc(ways, func(a, b *Resolved) int { return cmp.Compare(a.rank(), b.rank()) })
	best.Agent, best.env = a, c.env
	best.defaults()
	return best, nil
}

// defaults adds the variables that neither the environment nor the distribution sets.
func (r *Resolved) defaults() {
	for _, entry := range environment(r.Agent.Own.Defaults) {
		name, _, _ := strings.Cut(entry, "=")
		if r.env(name) == "" && !slices.ContainsFunc(r.Env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			r.Env = append(r.Env, entry)
		}
	}
}

// rank tells the ways to run an agent apart: installed before fetched by itself before got by a person.
func (r *Resolved) rank() int {
	switch {
	case r.Found != "":
		return 2
	case len(r.Command) > 0 || r.fetch != nil:
		return 1
	}
	return 0
}

// found completes what runs a program.
func (r *Resolved) found(where, version string, program, args []string) *Resolved {
	r.Found, r.Installed, r.program = where, version, program
	r.Command = slices.Concat(program, args)
	return r
}

// Platform returns this machine's name in manifests: "linux-x86_64".
func Platform() string {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	arch = cmp.Or(arch, runtime.GOARCH)
	return runtime.GOOS + "-" + arch
}

// binary looks for a program that came in an archive: where it is meant to be unpacked, then on PATH.
func (c *Catalog) binary(id string, b *Binary) *Resolved {
	r := &Resolved{Kind: KindBinary, Env: environment(b.Env)}
	if filepath.IsAbs(b.Cmd) {
		r.Get = "put the program at " + b.Cmd
		if executable(b.Cmd) {
			return r.found(FoundInFolder, "", []string{b.Cmd}, b.Args)
		}
		return r
	}
	folder := c.folder(id)
	switch {
	case b.Archive == "":
		r.Get = "put " + filepath.Base(b.Cmd) + " on your PATH"
	case folder == "":
		r.Get = "unpack " + b.Archive + " and put " + filepath.Base(b.Cmd) + " on your PATH"
	default:
		r.Get = "unpack " + b.Archive + " in " + folder
	}
	if folder != "" {
		if file := filepath.Join(folder, b.Cmd); executable(file) {
			return r.found(FoundInFolder, "", []string{file}, b.Args)
		}
	}
	if file := c.lookPath(filepath.Base(b.Cmd)); file != "" {
		return r.found(FoundOnPath, "", []string{file}, b.Args)
	}
	return r
}

// folder is where an agent's archive is meant to be unpacked; empty: there is no telling.
func (c *Catalog) folder(id string) string {
	if dir := c.data(); dir != "" {
		return filepath.Join(dir, "acphost", "agents", id)
	}
	return ""
}

// data is the user's folder for data, as the XDG base directory specification has it.
func (c *Catalog) data() string {
	return ownfile.BaseDir(c.env, "XDG_DATA_HOME", filepath.Join(".local", "share"))
}

// lookPath returns the absolute path of a program on PATH; empty: there is none. Relative folders of PATH, which the
// working directory would decide about, do not count.
func (c *Catalog) lookPath(program string) string {
	for _, folder := range filepath.SplitList(c.env("PATH")) {
		if !filepath.IsAbs(folder) {
			continue
		}
		if file := filepath.Join(folder, program); executable(file) {
			return file
		}
	}
	return ""
}

func executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// nameOf returns a package's name without its version.
func nameOf(pkg string) string {
	name, _ := splitPackage(pkg)
	return name
}

// splitPackage splits "@scope/name@1.2.3", and "name[extra]==1.2.3" of Python.
func splitPackage(pkg string) (name, version string) {
	for i := 1; i < len(pkg); i++ { // an "@" in front is a scope's
		if strings.IndexByte("@=~><[", pkg[i]) >= 0 {
			name, version = pkg[:i], pkg[i:]
			if j := strings.IndexByte(version, ']'); j >= 0 {
				version = version[j+1:]
			}
			return name, strings.TrimLeft(version, "@=~><")
		}
	}
	return pkg, ""
}
