package handler

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/acphost/acphost/internal/connlimit"
	"github.com/acphost/acphost/internal/keyfiles"
	"github.com/acphost/acphost/internal/peer"
	"github.com/acphost/acphost/sdk/internal/secret"
)

// credentials returns the server options that authenticate the supervisor: by the secret that each call carries, or by
// mutual TLS with the files, which are read again for each connection so that renewed files take effect.
func (o options) credentials(log *slog.Logger) ([]grpc.ServerOption, error) {
	if o.secretFile != "" {
		s, err := secret.Load(o.secretFile)
		if err != nil {
			return nil, fmt.Errorf("--secret-file: %w", err)
		}
		return []grpc.ServerOption{grpc.InTapHandle(requireSecret(s, log))}, nil
	}
	read, err := o.tlsConfig()
	if err != nil {
		return nil, err
	}
	var last atomic.Pointer[tls.Config] // the last valid one, while only one of two files was replaced
	last.Store(read)
	return []grpc.ServerOption{grpc.Creds(reportingCredentials{credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			config, err := o.tlsConfig()
			if err != nil {
				log.Warn("the TLS files cannot be read again; the ones that were read before stay in use", "error", err)
				return last.Load(), nil
			}
			last.Store(config)
			return config, nil
		},
	})})}, nil
}

// requireSecret rejects every call that does not carry the secret, including health and reflection, before its body is
// read. The first rejected call is logged as a warning; further warnings would let any client fill the log. A
// supervisor calls health without the secret, to check that the call is rejected.
func requireSecret(s secret.Secret, log *slog.Logger) tap.ServerInHandle {
	var warn sync.Once
	return func(ctx context.Context, call *tap.Info) (context.Context, error) {
		if s.InHeaders(call.Header) {
			return ctx, nil
		}
		if call.FullMethodName != grpc_health_v1.Health_Check_FullMethodName {
			warn.Do(func() {
				log.Warn("refused a call without the secret; more of them are not logged", "method", call.FullMethodName)
			})
		}
		return nil, status.Error(codes.Unauthenticated, "this sidecar serves its supervisor alone, and the call does not carry "+
			"the secret of --secret-file: name the same secret as secret_file in acphost's configuration of the handler")
	}
}

func (o options) tlsConfig() (*tls.Config, error) {
	clients, pair, err := keyfiles.Files{CA: o.tlsCA, Cert: o.tlsCert, Key: o.tlsKey}.Pair()
	if err != nil {
		return nil, fmt.Errorf("--tls-ca, --tls-cert and --tls-key: %w", err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    clients,
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"h2"},
		VerifyConnection: func(state tls.ConnectionState) error {
			return checkClient(state.PeerCertificates[0], pair.Leaf)
		},
	}, nil
}

// checkClient rejects a client whose certificate was not made for clients. Otherwise a process that can read a
// sidecar's key, or a key of another sidecar with the same authority, could call with it: an agent, if a sidecar runs
// as the agents' user. It also rejects the certificates of clients of supervisors: if both have the same authority, a
// viewer could run commands otherwise.
func checkClient(client, own *x509.Certificate) error {
	switch {
	case own != nil && bytes.Equal(client.RawSubjectPublicKeyInfo, own.RawSubjectPublicKeyInfo):
		return errors.New("the caller shows this sidecar's own certificate: give the supervisor one of its own")
	case !slices.Contains(client.ExtKeyUsage, x509.ExtKeyUsageClientAuth):
		return errors.New("the caller's certificate is not for clients: make one with extendedKeyUsage=clientAuth")
	}
	for _, u := range client.URIs {
		if role, ok := keyfiles.RoleIn(u); ok {
			return fmt.Errorf("the caller's certificate says that it is a supervisor's %s, and so it is not a supervisor: "+
				`make an authority for this sidecar alone with "acphost certs sidecar"`, role)
		}
	}
	return nil
}

// open listens on the address, for the users that may connect.
func (o options) open(log *slog.Logger) (net.Listener, error) {
	network, target, err := o.address()
	if err != nil {
		return nil, err
	}
	if network == "tcp" {
		l, err := net.Listen("tcp", target)
		if err != nil {
			return nil, fmt.Errorf("--listen %s: %w", o.listen, err)
		}
		return newHandshakeListener(l, connlimit.Room()), nil
	}
	l, err := listenUnix(target, o.socketMode())
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w", o.listen, err)
	}
	if len(o.allowUIDs) == 0 {
		return l, nil
	}
	return &uidListener{Listener: l, allowed: o.allowUIDs, log: log}, nil
}

// probeTimeout is how long a sidecar may take to accept a connection.
const probeTimeout = 2 * time.Second

// tryAddress returns an error if no process listens at the address.
func (o options) tryAddress() error {
	network, target, err := o.address()
	if err != nil {
		return err
	}
	conn, err := net.DialTimeout(network, target, probeTimeout) //nolint:gosec // the address is from the command line
	if err != nil {
		return err
	}
	return conn.Close()
}

// socketMode permits only this user to connect if no other user is expected; root can always connect. Otherwise the
// access control consists of the checks (of each connection's uid or certificate, of each call's secret). A secret
// without users is for this user only: the file belongs to this user.
func (o options) socketMode() fs.FileMode {
	others := slices.ContainsFunc(o.allowUIDs, func(uid uint32) bool { return uid != 0 && uid != uint32(os.Geteuid()) })
	if others || len(o.allowUIDs) == 0 && o.secretFile == "" {
		return 0o666
	}
	return 0o600
}

// listenUnix makes the socket, and replaces a socket that no process serves.
func listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// The mode must be right from the start; chmod would be too late. No other code makes files yet.
	old := syscall.Umask(int(0o777 &^ mode))
	l, err := net.Listen("unix", path)
	syscall.Umask(old)
	return l, err
}

// removeStale removes a socket whose process has ended. It keeps the socket of a running process.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s exists and is not a socket: it was left alone", path)
	}
	conn, err := net.DialTimeout("unix", path, 2*time.Second) //nolint:gosec // the socket is from the command line
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("%s is served by a living process: stop that first", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("cannot determine whether %s is still served: %w", path, err)
	}
	return os.Remove(path)
}

// uidListener accepts connections of certain users only.
type uidListener struct {
	net.Listener
	allowed []uint32
	log     *slog.Logger
}

// Accept returns the next connection of an allowed user. It closes connections of other users.
func (l *uidListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peer.UID(conn)
		if err == nil && slices.Contains(l.allowed, uid) {
			return conn, nil
		}
		_ = conn.Close()
		switch {
		case err != nil:
			l.log.Warn("connection rejected: its process cannot be identified", "error", err)
		case uid == uint32(os.Geteuid()): // --probe, every few seconds
			l.log.Debug("connection refused: its user is not allowed", "uid", uid)
		default:
			l.log.Warn("connection refused: its user is not allowed", "uid", uid)
		}
	}
}
