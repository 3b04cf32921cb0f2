package handler

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/acphost/acphost/sdk/internal/peer"
)

// credentials are mutual TLS from the files, read again for each connection so that renewed ones take effect. Without
// files there are none.
func (o options) credentials() ([]grpc.ServerOption, error) {
	if o.tlsCA == "" {
		return nil, nil
	}
	if _, err := o.tlsConfig(); err != nil {
		return nil, err
	}
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return o.tlsConfig()
		},
	}))}, nil
}

func (o options) tlsConfig() (*tls.Config, error) {
	authority, err := os.ReadFile(o.tlsCA)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("--tls-ca: %s holds no certificate in PEM", o.tlsCA)
	}
	pair, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    clients,
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"h2"},
	}, nil
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
		return l, nil
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

// socketMode lets only this user connect where nobody else is expected; root always can. Otherwise the check of each
// connection (uid or certificate) is the wall.
func (o options) socketMode() fs.FileMode {
	others := slices.ContainsFunc(o.allowUIDs, func(uid uint32) bool { return uid != 0 && uid != uint32(os.Geteuid()) })
	if others || len(o.allowUIDs) == 0 {
		return 0o666
	}
	return 0o600
}

// listenUnix makes the socket, in the place of one that nobody serves any more.
func listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// The mode has to be right from the first moment; chmod would come later. Nothing else makes files yet.
	old := syscall.Umask(int(0o777 &^ mode))
	l, err := net.Listen("unix", path)
	syscall.Umask(old)
	return l, err
}

// removeStale removes a socket whose process is dead. One that is alive keeps it.
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
	conn, err := net.DialTimeout("unix", path, 2*time.Second)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("%s is served by a living process: stop that first", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("cannot tell whether %s is still served: %w", path, err)
	}
	return os.Remove(path)
}

// uidListener lets only some users' processes connect.
type uidListener struct {
	net.Listener
	allowed []uint32
	log     *slog.Logger
}

// Accept returns the next connection of an allowed user; others are closed.
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
		if err != nil {
			l.log.Warn("connection refused: cannot tell whose it is", "error", err)
		} else {
			l.log.Warn("connection refused: its user is not allowed", "uid", uid)
		}
	}
}
