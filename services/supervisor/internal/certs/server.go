package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// Files are the PEM files of one end of a connection.
type Files struct {
	// CA is the authority that the other end's certificate is checked by.
	CA string
	// Cert is our certificate, with what stands between it and the authority.
	Cert string
	// Key is its private key. Only its owner may read it.
	Key string
}

// maxFileBytes bounds a file of keys.
const maxFileBytes = 1 << 20

// Server has a server's keys, and reads them again when their files change. Safe for concurrent use.
type Server struct {
	files  Files
	logger *slog.Logger
	config *tls.Config // what a listener gets: it asks for the rest with every handshake

	mu      sync.Mutex
	seen    [3]stamp // guarded by mu: the files as they were when they were last looked into
	current *tls.Config
}

// stamp tells a file from what it was.
type stamp struct {
	size     int64
	modified time.Time
	info     fs.FileInfo // with the identity of the file; nil: it was not there
}

// NewServer reads the keys. An error says which file cannot be used, and why: it is missing, the certificate is not valid
// now, the key is another one's or can be read by others.
func NewServer(f Files, logger *slog.Logger) (*Server, error) {
	s := &Server{files: f, logger: logger}
	s.seen = s.look()
	var err error
	if s.current, err = f.server(time.Now()); err != nil {
		return nil, err
	}
	s.config = &tls.Config{
		MinVersion:             tls.VersionTLS13,
		ClientAuth:             tls.RequireAndVerifyClientCert,
		SessionTicketsDisabled: true,
		GetConfigForClient:     func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.now(), nil },
	}
	return s, nil
}

// Config is for a listener: TLS 1.3, with a certificate of the authority's demanded of every client. Files that changed
// count from the next handshake on. Those that cannot be used do not count, and the log says why; what was there before
// goes on.
func (s *Server) Config() *tls.Config { return s.config }

// now is what counts for the handshake that begins.
func (s *Server) now() *tls.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.look()
	if same(seen, s.seen) {
		return s.current
	}
	s.seen = seen // once for each change, whatever comes of it
	next, err := s.files.server(time.Now())
	if err != nil {
		s.logger.Error("the keys for TCP changed and cannot be used; those from before go on", "error", err)
		return s.current
	}
	s.logger.Info("the keys for TCP were read again")
	s.current = next
	return next
}

func (s *Server) look() [3]stamp {
	var seen [3]stamp
	for i, name := range []string{s.files.CA, s.files.Cert, s.files.Key} {
		if info, err := os.Stat(name); err == nil {
			seen[i] = stamp{info.Size(), info.ModTime(), info}
		}
	}
	return seen
}

func same(a, b [3]stamp) bool {
	for i := range a {
		switch {
		case (a[i].info == nil) != (b[i].info == nil):
			return false
		case a[i].info == nil:
		case a[i].size != b[i].size || !a[i].modified.Equal(b[i].modified) || a[i].info.Mode() != b[i].info.Mode() || !os.SameFile(a[i].info, b[i].info):
			return false
		}
	}
	return true
}

// server makes a server's configuration of what is in the files now.
func (f Files) server(now time.Time) (*tls.Config, error) {
	pool, pair, err := f.load(now)
	if err != nil {
		return nil, err
	}
	if usages := pair.Leaf.ExtKeyUsage; len(usages) > 0 && !slices.Contains(usages, x509.ExtKeyUsageServerAuth) && !slices.Contains(usages, x509.ExtKeyUsageAny) {
		return nil, fmt.Errorf("%s is not a certificate for servers", f.Cert)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair},
		ClientCAs:    pool,
		ClientAuth:   tls.RequireAndVerifyClientCert,
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"h2"},
		// A session that is taken up again would skip the look at the client's certificate.
		SessionTicketsDisabled: true,
	}, nil
}

// Client is a client's configuration for a server of the authority's. host is the name or address that the server's
// certificate must carry.
func (f Files) Client(host string) (*tls.Config, error) {
	pool, pair, err := f.load(time.Now())
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ServerName: host, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}, nil
}

// load reads the files.
func (f Files) load(now time.Time) (*x509.CertPool, tls.Certificate, error) {
	none := tls.Certificate{}
	authority, err := read(f.CA)
	if err != nil {
		return nil, none, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, none, fmt.Errorf("%s holds no certificate in PEM", f.CA)
	}
	cert, err := read(f.Cert)
	if err != nil {
		return nil, none, err
	}
	key, err := readPrivate(f.Key)
	if err != nil {
		return nil, none, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, none, fmt.Errorf("the certificate %s and the key %s: %w", f.Cert, f.Key, err)
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, none, fmt.Errorf("the certificate %s: %w", f.Cert, err)
		}
	}
	switch {
	case now.After(pair.Leaf.NotAfter):
		return nil, none, fmt.Errorf("the certificate %s expired on %s; make a new one", f.Cert, pair.Leaf.NotAfter.Format(time.DateOnly))
	case now.Before(pair.Leaf.NotBefore):
		return nil, none, fmt.Errorf("the certificate %s is not valid before %s; is the clock right?", f.Cert, pair.Leaf.NotBefore.Format(time.DateTime))
	}
	return pool, pair, nil
}

// read returns a file's content.
func read(name string) ([]byte, error) {
	if name == "" {
		return nil, errors.New("ca, cert and key: all three files are needed")
	}
	data, _, err := readFile(name)
	return data, err
}

// readPrivate returns the content of a file that only its owner can read.
func readPrivate(name string) ([]byte, error) {
	if name == "" {
		return read(name)
	}
	data, info, err := readFile(name)
	if err != nil {
		return nil, err
	}
	if forOthers(info) {
		return nil, fmt.Errorf("the key %s is open to others (mode %04o); chmod 0600 %s, and make a new one if somebody may have read it", name, info.Mode().Perm(), name)
	}
	return data, nil
}

func readFile(name string) ([]byte, fs.FileInfo, error) {
	info, err := os.Stat(name) // before it is opened: opening a named pipe would wait
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", name)
	}
	if info.Size() > maxFileBytes {
		return nil, nil, fmt.Errorf("%s is longer than %d bytes", name, maxFileBytes)
	}
	data, err := os.ReadFile(name)
	return data, info, err
}
