// Package files reads and writes text files, lists folders and resolves paths for an agent, always below a session's
// roots.
//
// The package treats the caller as hostile. It first resolves a path, link by link, and checks the resolved path. Then
// it opens exactly the resolved path, without following any symbolic link in it. If a link is swapped in between, the
// result is an error and never a file outside of the roots. No function waits for a FIFO, a device or a socket.
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
	// DefaultMaxContent is the default limit of content that is read or written whole.
	DefaultMaxContent = 10 << 20
	// MinMaxContent is the smallest limit that can be configured.
	MinMaxContent = 1 << 10
	// MaxMaxContent is the largest limit that can be configured: it leaves room for the rest of a 64 MiB message.
	MaxMaxContent = 60 << 20
	// DefaultListLimit is the number of entries that List returns for a limit of 0.
	DefaultListLimit = 1000
	// MaxListLimit is the maximum limit of List.
	MaxListLimit = 10000
)

// Config is the configuration of a Disk. It may change while calls run; a call keeps the configuration with which it
// began.
type Config struct {
	// MaxContent limits the bytes that a read returns or a write accepts. 0: DefaultMaxContent.
	MaxContent int64
	// Protected are absolute paths of files and folders that must not be accessed through this package, whether they
	// exist or not, and under any name.
	Protected []string
	// AsSent writes each content byte for byte. Otherwise a file keeps its textform.Form.
	AsSent bool
}

// Root is a folder that may be accessed, with everything below it.
type Root struct {
	// Path is absolute and may lead through symbolic links.
	Path string
	// ReadOnly allows reads and rejects writes.
	ReadOnly bool
}

// Bounds are the limits of one call.
type Bounds struct {
	// Roots may overlap: the innermost root that contains a path decides about it.
	Roots []Root
	// Resolved is the path that the call's path resolved to when the call was allowed. If the path leads elsewhere now,
	// the call is rejected. Empty: not checked.
	Resolved string
	// Allowed is the one file outside of the roots that may be read or written, absolute and without symbolic links.
	// Empty: none.
	Allowed string
	// NoDigest omits the digest and the form of the content from the result of a read or a write.
	NoDigest bool
}

// Disk answers calls. Use New; the zero value is not usable. It is safe for concurrent use. Writes to one file run one
// after another.
type Disk struct {
	state atomic.Pointer[state]
	locks keyedLocks
	swept sweeper
	// repositories is held by writes that may turn a folder into a git repository.
	repositories sync.Mutex
}

// state is a configuration and the data derived from it. It is immutable, except for the cached state of protected
// paths.
type state struct {
	maxContent int64
	protected  *protection
	asSent     bool
}

// New returns a Disk with the default configuration: DefaultMaxContent, no protected paths.
func New() *Disk {
	d := &Disk{}
	d.state.Store(&state{maxContent: DefaultMaxContent, protected: &protection{}})
	return d
}

// Configure replaces the configuration. With validateOnly it only checks it. It rejects protected paths that are not
// absolute, and changes nothing then.
func (d *Disk) Configure(c Config, validateOnly bool) error {
	s, err := newState(c)
	if err == nil && !validateOnly {
		s.protected.startWatch(d.state.Swap(s).protected)
	}
	return err
}

func newState(c Config) (*state, error) {
	c.MaxContent = cmp.Or(c.MaxContent, DefaultMaxContent)
	if c.MaxContent < MinMaxContent || c.MaxContent > MaxMaxContent {
		return nil, fail(Invalid, "a content of at most %d bytes was requested for, %d to %d can be set", c.MaxContent, int64(MinMaxContent), int64(MaxMaxContent))
	}
	protected, err := newProtection(c.Protected)
	if err != nil {
		return nil, err
	}
	return &state{maxContent: c.MaxContent, protected: protected, asSent: c.AsSent}, nil
}

// Location is the target of a path.
type Location struct {
	// Path is absolute and contains no symbolic link. If the target does not exist yet, only the existing part was
	// resolved.
	Path string
	// Exists means that a file exists there.
	Exists bool
	// Inside means that a call treats the path as inside the roots.
	Inside bool
	// Root is the innermost root that contains the path, as spelled in Bounds; empty if Inside is false.
	Root string
	// ReadOnly means that this root is read-only.
	ReadOnly bool
	// Protected means that the path is protected, or below a protected path, under any name.
	Protected bool
}

// Resolve returns the target of a path. A target outside of the roots, or a protected one, is no error; a path that
// cannot be resolved (a loop, a folder without search permission) is an error.
func (d *Disk) Resolve(ctx context.Context, b Bounds, path string) (Location, error) {
	if err := ctx.Err(); err != nil {
		return Location{}, err
	}
	p, err := d.state.Load().locate(b, path, resolveOnly)
	if err != nil {
		return Location{}, err
	}
	loc := Location{Path: p.path, Exists: p.exists(), Protected: p.protected}
	if p.root != nil {
		loc.Inside, loc.Root, loc.ReadOnly = true, p.root.Path, p.root.ReadOnly
	}
	return loc, nil
}
