package keyfiles

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// Server has a server's keys, and reloads them when their files change. Safe for concurrent use.
type Server struct {
	files    Files
	complete func(*tls.Config)
	logger   *slog.Logger
	config   *tls.Config // given to listeners; it gets the current configuration for each handshake

	mu      sync.Mutex     // guards the fields below
	seen    [3]fs.FileInfo // the state of the files at the last check; nil: missing
	current *tls.Config
}

// NewServer loads the keys. complete sets the remaining fields of the configuration: the lowest version, the
// authentication of clients, the protocols. An error names the unusable file and the reason: it is missing, the
// certificate is not valid now or not for servers, the key does not belong to it or other users can read it.
func NewServer(f Files, complete func(*tls.Config), logger *slog.Logger) (*Server, error) {
	s := &Server{files: f, complete: complete, logger: logger}
	s.seen = s.stat()
	var err error
	if s.current, err = s.read(time.Now()); err != nil {
		return nil, err
	}
	s.config = s.current.Clone()
	s.config.Certificates = nil
	s.config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.now(), nil }
	return s, nil
}

// Config returns the configuration for a listener. Changed files apply from the next handshake on. If they are
// unusable, Server logs the reason and keeps the previous keys.
func (s *Server) Config() *tls.Config { return s.config }

// now returns the configuration for a new handshake.
func (s *Server) now() *tls.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.stat()
	if slices.EqualFunc(seen[:], s.seen[:], same) {
		return s.current
	}
	s.seen = seen // before reading, so that unusable files are logged once for each change
	next, err := s.read(time.Now())
	if err != nil {
		s.logger.Error("the keys for TCP changed and cannot be used; those from before go on", "error", err)
		return s.current
	}
	s.logger.Info("the keys for TCP were read again")
	s.current = next
	return next
}

func (s *Server) stat() (seen [3]fs.FileInfo) {
	for i, name := range []string{s.files.CA, s.files.Cert, s.files.Key} {
		seen[i], _ = os.Stat(name)
	}
	return seen
}

// same reports whether a file is unchanged.
func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode() && os.SameFile(a, b)
}

// read makes a configuration from the current files.
func (s *Server) read(now time.Time) (*tls.Config, error) {
	pool, pair, err := s.files.Load(now)
	if err != nil {
		return nil, err
	}
	if usages := pair.Leaf.ExtKeyUsage; len(usages) > 0 && !slices.Contains(usages, x509.ExtKeyUsageServerAuth) && !slices.Contains(usages, x509.ExtKeyUsageAny) {
		return nil, fmt.Errorf("%s is not a certificate for servers", s.files.Cert)
	}
	c := &tls.Config{
		Certificates: []tls.Certificate{pair},
		ClientCAs:    pool,
		MinVersion:   tls.VersionTLS13,
		// A resumed session would skip the verification of the client's certificate.
		SessionTicketsDisabled: true,
	}
	s.complete(c)
	return c, nil
}
