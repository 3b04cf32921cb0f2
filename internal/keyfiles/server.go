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

// Server has a server's keys, and reads them again when their files change. Safe for concurrent use.
type Server struct {
	files    Files
	complete func(*tls.Config)
	logger   *slog.Logger
	config   *tls.Config // what a listener gets: it asks for the rest with every handshake

	mu      sync.Mutex     // guards what follows
	seen    [3]fs.FileInfo // the files as they were when they were last looked into; nil: not there
	current *tls.Config
}

// NewServer reads the keys. complete sets what the certificate, the authority for clients' certificates and the lack of session
// tickets leave open: the least version, what is asked of clients, the protocols. An error says which file cannot be used, and
// why: it is missing, the certificate is not valid now or none of a server, the key is another one's or can be read by others.
func NewServer(f Files, complete func(*tls.Config), logger *slog.Logger) (*Server, error) {
	s := &Server{files: f, complete: complete, logger: logger}
	s.seen = s.look()
	var err error
	if s.current, err = s.read(time.Now()); err != nil {
		return nil, err
	}
	s.config = s.current.Clone()
	s.config.Certificates = nil
	s.config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.now(), nil }
	return s, nil
}

// Config is for a listener. Files that changed count from the next handshake on. Those that cannot be used do not count, and the
// log says why; what was there before goes on.
func (s *Server) Config() *tls.Config { return s.config }

// now is what counts for the handshake that begins.
func (s *Server) now() *tls.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.look()
	if slices.EqualFunc(seen[:], s.seen[:], same) {
		return s.current
	}
	s.seen = seen // once for each change, whatever comes of it
	next, err := s.read(time.Now())
	if err != nil {
		s.logger.Error("the keys for TCP changed and cannot be used; those from before go on", "error", err)
		return s.current
	}
	s.logger.Info("the keys for TCP were read again")
	s.current = next
	return next
}

func (s *Server) look() (seen [3]fs.FileInfo) {
	for i, name := range []string{s.files.CA, s.files.Cert, s.files.Key} {
		seen[i], _ = os.Stat(name)
	}
	return seen
}

// same reports whether a file is what it was.
func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode() && os.SameFile(a, b)
}

// read makes a configuration of what is in the files now.
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
		// A session that is taken up again would skip the look at the client's certificate.
		SessionTicketsDisabled: true,
	}
	s.complete(c)
	return c, nil
}
