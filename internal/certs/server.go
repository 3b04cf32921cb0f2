package certs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/acphost/acphost/internal/keyfiles"
)

// Files are the PEM files of one end of a connection.
type Files = keyfiles.Files

// Server holds the keys of a server, and reloads them when their files change. It is safe for concurrent use.
type Server = keyfiles.Server

// NewServer reads the keys, for TLS 1.3 with a required client certificate of the authority. The error names the
// unusable file and the reason.
func NewServer(f Files, logger *slog.Logger) (*Server, error) {
	s, err := keyfiles.NewServer(f, func(c *tls.Config) {
		c.ClientAuth, c.NextProtos = tls.RequireAndVerifyClientCert, []string{"h2"}
	}, logger)
	if err != nil {
		return nil, toServe(f, err)
	}
	return s, nil
}

// toServe adds to an error about missing files where a server's keys are created.
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
