package handler

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/sdk/internal/wire"
)

// hostCertificate is the environment variable with the host's certificate, for mutual TLS.
const hostCertificate = "PLUGIN_CLIENT_CERT"

// childTLS returns the TLS configuration of go-plugin's AutoMTLS, but with a key on P-256: go-plugin's key on P-521
// costs a child and its host about 6 ms for each start, most of it to check signatures. certificate is for the
// handshake line. A nil config means no TLS: the host does not use it.
func childTLS(host string) (config *tls.Config, certificate string, err error) {
	if host == "" {
		return nil, "", nil
	}
	clients := x509.NewCertPool()
	if !clients.AppendCertsFromPEM([]byte(host)) {
		return nil, "", errors.New(hostCertificate + " contains no valid certificate: no client could call this handler")
	}
	identity, _, err := wire.NewIdentity()
	if err != nil {
		return nil, "", err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{identity},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    clients,
		MinVersion:   tls.VersionTLS12,
	}, base64.RawStdEncoding.EncodeToString(identity.Certificate[0]), nil
}

// addCertificate copies go-plugin's handshake line to stdout, and inserts the certificate: go-plugin omits a
// certificate that it has not made itself. The returned file accepts that line, and ignores later output.
func addCertificate(certificate string, stdout io.Writer) (*os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for the handshake: %w", err)
	}
	go func() {
		defer read.Close()
		defer panics.Recover(nil, "passing on the handshake")
		line, err := bufio.NewReader(read).ReadString('\n')
		if err != nil {
			return // go-plugin reports why it did not serve
		}
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		const place = 5 // 1|1|NETWORK|ADDRESS|grpc|CERTIFICATE
		if len(parts) > place && parts[place] == "" {
			parts[place] = certificate
		}
		_, _ = io.WriteString(stdout, strings.Join(parts, "|")+"\n")
	}()
	return write, nil
}
