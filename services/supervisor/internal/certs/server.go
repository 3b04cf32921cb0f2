package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/keyfiles"
)

// Files are the PEM files of one end of a connection.
type Files = keyfiles.Files

// Server has a server's keys, and reads them again when their files change. Safe for concurrent use.
type Server struct {
	files  Files
	logger *slog.Logger
	config *tls.Config // what a listener gets: it asks for the rest with every handshake

	mu      sync.Mutex
	seen    [3]fs.FileInfo // guarded by mu: the files as they were when they were last looked into; nil: not there
	current *tls.Config
}

// NewServer reads the keys. An error says which file cannot be used, and why: it is missing, the certificate is not valid
// now, the key is another one's or can be read by others.
func NewServer(f Files, logger *slog.Logger) (*Server, error) {
	s := &Server{files: f, logger: logger}
	s.seen = s.look()
	var err error
	if s.current, err = serverConfig(f, time.Now()); err != nil {
		return nil, toServe(f, err)
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
	if slices.EqualFunc(seen[:], s.seen[:], same) {
		return s.current
	}
	s.seen = seen // once for each change, whatever comes of it
	next, err := serverConfig(s.files, time.Now())
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

// serverConfig makes a server's configuration of what is in the files now.
func serverConfig(f Files, now time.Time) (*tls.Config, error) {
	pool, pair, err := f.Load(now)
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

// toServe adds to an error about files that are not there where a server's keys are.
func toServe(f Files, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := filepath.Dir(f.CA)
	if server := filepath.Join(dir, ServerDir); isThere(ServerFiles(server).Cert) {
		return fmt.Errorf("%w; the server's keys are in the folder %s: name that one", err, server)
	}
	return fmt.Errorf("%w; \"acphost certs init DIR\" makes keys, and a server takes those of the folder DIR/%s (--tls-dir, or admin.tls)", err, ServerDir)
}
