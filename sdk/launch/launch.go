// Package launch is the host's half of running a handler: it starts one as a go-plugin child, or dials one that runs as
// a sidecar, and hands back the same thing for both, a gRPC connection with a life of its own (Instance).
//
// It knows processes, sockets, go-plugin's handshake and TLS. It must not know what a handler answers, nor when one
// should be started again: that is its caller's.
//
// go-plugin is used for its handshake and its mutual TLS only. Its ways of reading stderr, killing and pinging have no
// bounds against a hostile or stopped process, so the process belongs to a runner of our own and the connection is
// dialled here.
package launch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/go-plugin"

	"github.com/acphost/acphost/sdk/internal/wire"
)

// What marks a process as a handler's child. They are no secret.
const (
	CookieKey   = wire.CookieKey
	CookieValue = wire.CookieValue
)

// ProtocolVersion is go-plugin's application protocol version. It stays 1: a breaking change of the contract is a new
// proto package, seen in Describe.
const ProtocolVersion = wire.ProtocolVersion

// MaxReplyBytes is the largest reply that is taken from a handler, in bytes; a larger one fails its call with
// RESOURCE_EXHAUSTED.
const MaxReplyBytes = wire.MaxReply

// Defaults of Spec.
const (
	DefaultHandshakeTimeout = 10 * time.Second
	DefaultStopGrace        = 5 * time.Second
)

// Handshake returns what host and child compare before anything else.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  ProtocolVersion,
		MagicCookieKey:   CookieKey,
		MagicCookieValue: CookieValue,
	}
}

// Spec says which handler to run or to reach. Exactly one of Command and Address is set.
type Spec struct {
	// Name is the handler's name in logs and errors. Required.
	Name string

	// Command is the program, by absolute path, and its arguments. PATH is never searched.
	Command []string
	// Dir is the child's working directory. Empty: the host's.
	Dir string
	// Env is added to the child's environment, each "NAME=VALUE". A child inherits nothing of the host's but PATH, HOME,
	// TMPDIR and LANG; ACPHOST_LOG is set to what Logger lets through unless Env sets it.
	Env []string
	// SHA256 is the program's digest in hexadecimal, 64 characters. A program with another one is not started. Empty:
	// any is; see Instance.Digest.
	SHA256 string
	// NoTLS runs the child's connection without mutual TLS, for handlers that cannot do it. Any process of the same user
	// can then call the handler.
	NoTLS bool

	// Address is a sidecar's: "unix:///PATH" or "tcp://HOST:PORT". TCP takes TLS.
	Address string
	// TLS names the keys for mutual TLS with a sidecar. Nil: none, for unix addresses only.
	TLS *TLSFiles
	// UID is the user id that a sidecar's socket must belong to where TLS is nil. Nil: the host's own effective one.
	UID *uint32

	// Logger takes the handler's own log lines and what befalls it, with handler=Name. Nil: nothing is logged.
	Logger *slog.Logger
	// HandshakeTimeout bounds the time from the start to the handshake, and from there to a connection that answers.
	// Default (0): DefaultHandshakeTimeout.
	HandshakeTimeout time.Duration
	// StopGrace is how long Stop waits after the end of the child's stdin until it sends TERM, and from TERM to KILL.
	// Default (0): DefaultStopGrace.
	StopGrace time.Duration
}

// TLSFiles names PEM files. They are read at each Start.
type TLSFiles struct {
	// CA signed the other side's certificate.
	CA string
	// Cert and Key are this side's.
	Cert, Key string
	// ServerName is the name that the other side's certificate must carry. Empty: the address's host, "localhost" for
	// unix.
	ServerName string
}

// Start starts a child or dials a sidecar, and returns when the connection is up: authenticated, and answering HTTP/2.
// Nothing has been called on it yet. ctx bounds the start alone; cancelling it later does nothing. On error nothing is
// left: no process, no folder, no connection.
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

// complete checks s and fills in the defaults.
func (s *Spec) complete() error {
	if s.Name == "" {
		s.Name = "(unnamed)"
	}
	switch {
	case len(s.Command) == 0 && s.Address == "":
		return errors.New("neither a command nor an address is given")
	case len(s.Command) > 0 && s.Address != "":
		return errors.New("both a command and an address are given: choose one")
	case len(s.Command) > 0 && !filepath.IsAbs(s.Command[0]):
		return fmt.Errorf("command %q is not an absolute path, and PATH is not searched", s.Command[0])
	case len(s.Command) > 0 && (s.TLS != nil || s.UID != nil):
		return errors.New("tls files and uid are for an address: a child makes its own keys")
	case s.Address != "" && (s.SHA256 != "" || len(s.Env) > 0 || s.NoTLS || s.Dir != ""):
		return errors.New("sha256, env, dir and no_tls are for a command: a sidecar is started by somebody else")
	}
	for _, e := range s.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" || strings.ContainsRune(e, 0) {
			return errors.New("an environment entry is not NAME=VALUE")
		}
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	s.Logger = s.Logger.With("handler", s.Name)
	if s.HandshakeTimeout <= 0 {
		s.HandshakeTimeout = DefaultHandshakeTimeout
	}
	if s.StopGrace <= 0 {
		s.StopGrace = DefaultStopGrace
	}
	return nil
}
