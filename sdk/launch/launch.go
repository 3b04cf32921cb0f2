// Package launch starts a handler as a go-plugin child, or connects to a handler that runs as a sidecar. In both cases
// it returns an Instance: a gRPC connection that reports its end.
//
// The package knows processes, sockets, go-plugin's handshake and TLS. It must not know which methods a handler
// answers, or when to start a handler again: the caller decides that.
//
// The package uses go-plugin only for its handshake and its mutual TLS. go-plugin reads stderr, kills and pings without
// limits that hold against a hostile or stopped process. Therefore the package has its own process runner and opens the
// connection itself.
package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/sdk/internal/wire"
)

// ProtocolVersion is the version of the plugin protocol that a child reports in its handshake.
const ProtocolVersion = wire.ProtocolVersion

// The environment variable that marks a process as a handler's child, and its value. They are not secret.
const (
	CookieKey   = wire.CookieKey
	CookieValue = wire.CookieValue
)

// ChildTimeout is the default of Spec.HandshakeTimeout for a child. It is longer than that of a sidecar, which is
// running already: a program in an interpreted language needs half a minute to start on an overloaded machine.
const ChildTimeout = time.Minute

// Other defaults of Spec.
const (
	sidecarTimeout = 10 * time.Second
	stopGrace      = 5 * time.Second
)

// Spec describes the handler to start or to connect to. Exactly one of Command and Address is set.
type Spec struct {
	// Name is the handler's name in logs and errors. Required.
	Name string

	// Command is the program, by absolute path, and its arguments. PATH is not searched.
	Command []string
	// Dir is the child's working directory. Empty: the host's.
	Dir string
	// Env is added to the child's environment, each "NAME=VALUE". A child inherits from the host only PATH, HOME,
	// TMPDIR and LANG. ACPHOST_LOG is set to the lowest level that Logger accepts, unless Env sets it.
	Env []string
	// SHA256 is the program's digest in hexadecimal, 64 characters. A program with another digest is not started.
	// Empty: not checked; see Instance.Digest.
	SHA256 string
	// NoTLS runs the child's connection without mutual TLS, for handlers that cannot do it. Any process of the same user
	// can then call the handler.
	NoTLS bool

	// User is the user of the child. Nil: the user of this process, which must be root to use another one. The child's
	// HOME is that user's, its working directory is / unless Dir is set, and the folder of its socket belongs to the
	// user.
	User *proc.User

	// Limited removes all capabilities from the child except those in Keep, also if this process is root.
	Limited bool
	Keep    []proc.Capability

	// Address is the address of a sidecar: "unix:///PATH" or "tcp://HOST:PORT". A tcp address requires TLS; a unix
	// address requires TLS or SecretFile.
	Address string
	// TLS names the keys for mutual TLS with a sidecar. Nil: none.
	TLS *TLSFiles
	// SecretFile contains the secret that every call to a sidecar carries, at least 32 bytes. It must belong to this
	// process's user or to root, and be closed to others. It is read at each Start. The secret is sent after the kernel
	// has reported that UID serves the socket, and the sidecar has rejected a call without it. Empty: none.
	SecretFile string
	// UID is the user id that a sidecar on a unix socket must run as. Nil: any if TLS is set, else the host's effective
	// user id.
	UID *uint32

	// Logger receives the handler's log lines and events of the instance, with handler=Name. Nil: no logs.
	Logger *slog.Logger
	// HandshakeTimeout limits the time from the start to the handshake, and from the handshake to a connection that
	// answers. Default (0): 60 s for a child (ChildTimeout), 10 s for a sidecar.
	HandshakeTimeout time.Duration
	// StopGrace is the time that Stop waits after the end of the child's stdin before it sends TERM, and from TERM to
	// KILL. Default (0): 5 s.
	StopGrace time.Duration
}

// TLSFiles are the paths of PEM files. They are read at each Start.
type TLSFiles struct {
	// CA is the authority that signed the other side's certificate.
	CA string
	// Cert and Key are the certificate and key of this side.
	Cert, Key string
	// ServerName is the name that the other side's certificate must contain. Empty: the address's host, "localhost" for
	// unix.
	ServerName string
}

// Start starts a child or connects to a sidecar, and returns when the connection is authenticated and answers HTTP/2.
// No method was called on it yet. ctx limits only the start; its later end has no effect. After an error no process,
// folder or connection is left.
//
// The caller owns the instance and must call Stop, also after Done.
func Start(ctx context.Context, s Spec) (*Instance, error) {
	if err := s.complete(); err != nil {
		return nil, fmt.Errorf("handler %s: %w", s.Name, err)
	}
	start := startChild
	if s.Address != "" {
		start = dialSidecar
	}
	i, err := start(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("handler %s: %w", s.Name, err)
	}
	return i, nil
}

// complete checks s and sets the defaults.
func (s *Spec) complete() error {
	s.Name = cmp.Or(s.Name, "(unnamed)")
	switch {
	case len(s.Command) == 0 && s.Address == "":
		return errors.New("neither a command nor an address is given")
	case len(s.Command) > 0 && s.Address != "":
		return errors.New("both a command and an address are given: choose one")
	case len(s.Command) > 0 && !filepath.IsAbs(s.Command[0]):
		return fmt.Errorf("command %q is not an absolute path, and PATH is not searched", s.Command[0])
	case len(s.Command) > 0 && (s.TLS != nil || s.UID != nil || s.SecretFile != ""):
		return errors.New("tls files, a secret file and uid are for an address: a child makes its own keys")
	case s.TLS != nil && s.SecretFile != "":
		return errors.New("both tls files and a secret file are given: choose one")
	case s.Address != "" && (s.SHA256 != "" || len(s.Env) > 0 || s.NoTLS || s.Dir != "" || s.User != nil):
		return errors.New("sha256, env, dir, user and no_tls are for a command: a sidecar is not started by acphost")
	}
	for _, e := range s.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" || strings.ContainsRune(e, 0) {
			return errors.New("an environment entry is not NAME=VALUE")
		}
	}
	s.Logger = cmp.Or(s.Logger, slog.New(slog.DiscardHandler)).With("handler", s.Name)
	if s.HandshakeTimeout <= 0 {
		s.HandshakeTimeout = ChildTimeout
		if s.Address != "" {
			s.HandshakeTimeout = sidecarTimeout
		}
	}
	if s.StopGrace <= 0 {
		s.StopGrace = stopGrace
	}
	return nil
}
