// Package files reads and writes text files, lists folders and resolves paths for an agent, always below a session's
// roots.
//
// The package treats the caller as hostile. It first resolves a path, link by link, and judges the resolved path. Then it
// opens exactly the resolved path, without following any symbolic link in it. If a link is swapped in between, the result
// is an error and never a file outside of the roots. No function waits for a FIFO, a device or a socket.
//
// The package knows paths, bytes and errno. It must not know gRPC, protobuf or ACP: the server package adapts it.
package files

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
)

const (
	// DefaultMaxContent is the largest content that is read or written whole unless the configuration says otherwise.
	DefaultMaxContent = 10 << 20
	// MinMaxContent is the smallest ceiling that can be configured.
	MinMaxContent = 1 << 10
	// MaxMaxContent is the largest ceiling that can be configured: it leaves room for the rest of a 64 MiB message.
	MaxMaxContent = 60 << 20
	// DefaultListLimit is how many entries List returns when it is asked for 0.
	DefaultListLimit = 1000
	// MaxListLimit is the most entries that List can be asked for.
	MaxListLimit = 10000
)

// Config is what can be set up; it may change while calls run, and a call keeps the one that it began with.
type Config struct {
	// MaxContent is the most bytes that a read returns or a write takes. 0: DefaultMaxContent.
	MaxContent int64
	// Protected are absolute paths of files and folders that nobody may touch through this package, whether they
	// exist or not, under whatever name they are reached.
	Protected []string
	// AsSent writes each content byte for byte. Otherwise a file keeps its textform.Form.
	AsSent bool
}

// Root is a folder that may be touched, with everything below it.
type Root struct {
	// Path is absolute and may lead through symbolic links.
	Path string
	// ReadOnly allows reads and refuses writes.
	ReadOnly bool
}

// Bounds are what one call is held to.
type Bounds struct {
	// Roots may overlap: the innermost root that holds a path decides about it.
	Roots []Root
	// Resolved is where the path was seen to lead when the call was allowed. A call whose path leads elsewhere now is
	// refused. Empty: not checked.
	Resolved string
	// Allowed is the one file outside of the roots that may be read or written, absolute and without symbolic links.
	// Empty: there is none.
	Allowed string
	// NoDigest leaves the digest of the content, and its form, out of what a read or a write returns.
	NoDigest bool
}

// Disk answers calls. The zero value is not usable: see New. It is safe for concurrent use; writes to one file happen
// one after another.
type Disk struct {
	state atomic.Pointer[state]
	locks keyedLocks
	swept sweeper
	// repositories is held by writes that may have a part in making a folder a repository of git's.
	repositories sync.Mutex
}

// state is a configuration and what was derived from it. It never changes, but for what is seen of the protected paths.
type state struct {
	maxContent int64
	protected  *protection
	asSent     bool
}

// New makes a Disk with the default configuration: DefaultMaxContent, nothing protected.
func New() *Disk {
	d := &Disk{}
	d.state.Store(&state{maxContent: DefaultMaxContent, protected: &protection{}})
	return d
}

// Configure replaces the configuration, unless validateOnly: then it only says whether it would. Protected paths that are
// not absolute are refused, and nothing changes then.
func (d *Disk) Configure(c Config, validateOnly bool) error {
	s, err := newState(c)
	if err == nil && !validateOnly {
		s.protected.follow(d.state.Swap(s).protected)
	}
	return err
}

func newState(c Config) (*state, error) {
	c.MaxContent = cmp.Or(c.MaxContent, DefaultMaxContent)
	if c.MaxContent < MinMaxContent || c.MaxContent > MaxMaxContent {
		return nil, fail(Invalid, "a content of at most %d bytes was asked for, %d to %d can be set", c.MaxContent, int64(MinMaxContent), int64(MaxMaxContent))
	}
	protected, err := newProtection(c.Protected)
	if err != nil {
		return nil, err
	}
	return &state{maxContent: c.MaxContent, protected: protected, asSent: c.AsSent}, nil
}

// Location is where a path leads.
type Location struct {
	// Path is absolute and holds no symbolic link. Of what does not exist yet, only the existing part was resolved.
	Path string
	// Exists says that something is there.
	Exists bool
	// Inside says that a call on the path would be held to be inside the roots.
	Inside bool
	// Root is the innermost root that holds it, as Bounds spells it; empty if Inside is false.
	Root string
	// ReadOnly says that this root is read-only.
	ReadOnly bool
	// Protected says that the path is a protected one, or below one, under whatever name.
	Protected bool
}

// Resolve says where a path leads. Leading out of the roots, or to something protected, is an answer and no error;
// a path that cannot be followed (a loop, a folder that may not be searched) is an error.
func (d *Disk) Resolve(ctx context.Context, b Bounds, path string) (Location, error) {
	if err := ctx.Err(); err != nil {
		return Location{}, err
	}
	p, err := d.state.Load().locate(b, path, anywhere)
	if err != nil {
		return Location{}, err
	}
	loc := Location{Path: p.path, Exists: p.exists(), Protected: p.protected}
	if p.root != nil {
		loc.Inside, loc.Root, loc.ReadOnly = true, p.root.Path, p.root.ReadOnly
	}
	return loc, nil
}
