// Package secret authenticates a supervisor to a sidecar on a unix socket without mutual TLS: every call carries the
// content of a file that only these two can read.
//
// The package reads such files, and creates and checks the metadata of calls. It must not know the caller or the called
// method.
package secret

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"

	"google.golang.org/grpc/credentials"
)

const (
	// MinBytes is the length of the shortest secret, in bytes, without the white space around it.
	MinBytes = 32
	// maxBytes limits a file. The secret is sent in a header with each call.
	maxBytes = 4096

	header = "authorization"
	scheme = "Bearer "
)

// Secret is a secret that was read. It is safe for concurrent use, and never printed.
type Secret struct {
	value  string
	digest [sha256.Size]byte
}

// Load reads the secret in a file, without the white space around it. The file must be regular, belong to this
// process's effective user or to root, and be closed to all other users; the group may read a file of root, for a
// service that does not run as root. The secret must have at least MinBytes of printable ASCII without spaces. An error
// describes the problem of the file, and never contains its content.
func Load(name string) (Secret, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a named pipe would block
	if err != nil {
		return Secret{}, fmt.Errorf("read the secret: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return Secret{}, fmt.Errorf("read the secret: %w", err)
	}
	if err := closed(name, info); err != nil {
		return Secret{}, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return Secret{}, fmt.Errorf("read the secret: %w", err)
	}
	value := strings.TrimSpace(string(data))
	switch {
	case len(data) > maxBytes:
		return Secret{}, fmt.Errorf("the secret file %s is longer than %d bytes: %s", name, maxBytes, howToMake)
	case len(value) < MinBytes:
		return Secret{}, fmt.Errorf("the secret in %s has %d bytes, and %d are the least: %s", name, len(value), MinBytes, howToMake)
	case strings.ContainsFunc(value, func(c rune) bool { return c <= ' ' || c > '~' }):
		return Secret{}, fmt.Errorf("the secret in %s is not one word of printable ASCII: %s", name, howToMake)
	}
	return Secret{value: value, digest: sha256.Sum256([]byte(value))}, nil
}

const howToMake = "make one with (umask 077; openssl rand -hex 32 >FILE)"

// closed returns an error if other users can read or write a file.
func closed(name string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("the owner of the secret file %s could not be determined: %w", name, errors.ErrUnsupported)
	}
	open, self := info.Mode().Perm()&0o077, uint32(os.Geteuid())
	if st.Uid == 0 && self != 0 {
		open = info.Mode().Perm() & 0o037
	}
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("the secret %s is not a regular file", name)
	case st.Uid != self && st.Uid != 0:
		return fmt.Errorf("the secret file %s belongs to user %d; it must belong to user %d, who reads it, or to root", name, st.Uid, self)
	case open != 0:
		return fmt.Errorf("the secret file %s is open to others (mode %04o); chmod 0600 %s, and make a new secret if somebody may have read it", name, info.Mode().Perm(), name)
	}
	return nil
}

// String implements fmt.Stringer. It does not reveal the secret.
func (Secret) String() string { return "(secret)" }

// GoString implements fmt.GoStringer, likewise.
func (s Secret) GoString() string { return s.String() }

// LogValue implements slog.LogValuer, likewise.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// InHeaders reports whether a call carries the secret: in exactly one header "authorization", as a bearer token (RFC
// 6750). It takes constant time, which reveals nothing about the secret.
func (s Secret) InHeaders(headers map[string][]string) bool {
	values := headers[header]
	if len(values) != 1 || len(values[0]) < len(scheme) || !strings.EqualFold(values[0][:len(scheme)], scheme) {
		return false
	}
	got := sha256.Sum256([]byte(values[0][len(scheme):]))
	return subtle.ConstantTimeCompare(got[:], s.digest[:]) == 1
}

// Credentials add the secret to every call of a connection. The connection need not be encrypted: it is a unix socket,
// which does not leave the kernel.
func (s Secret) Credentials() credentials.PerRPCCredentials { return perCall{s} }

type perCall struct{ secret Secret }

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (p perCall) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{header: scheme + p.secret.value}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (perCall) RequireTransportSecurity() bool { return false }
