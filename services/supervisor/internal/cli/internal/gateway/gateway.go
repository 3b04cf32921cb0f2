// Package gateway provides the flags of commands that call a gateway: the credentials and the connection.
//
// It knows tokens, certificates and URLs. It must not know the calls to a gateway.
package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

// TokenVariable is the environment variable that holds a token.
const TokenVariable = "ACPHOST_TOKEN" //nolint:gosec // a variable's name

// Environment is the section of --help about the variable.
const Environment = "  " + TokenVariable + "   the token, if --token-file is not given\n"

// maxToken limits the bytes of a file with a token, in case that the wrong file was given.
const maxToken = 64 << 10

// Flags contains the credentials of the caller, and the trusted authority of the gateway.
type Flags struct {
	TokenFile, CA, Cert, Key string
	Plaintext                bool
}

// Register adds the flags to a command. where is a prefix of their descriptions: "with --connect: ".
func (f *Flags) Register(set *pflag.FlagSet, where string) {
	set.StringVar(&f.TokenFile, "token-file", "", where+"the `FILE` with the token")
	set.StringVar(&f.CA, "ca", "", where+
		"the `FILE` with the authority of the gateway's certificate; default: the system's authorities")
	set.StringVar(&f.Cert, "cert", "", where+"the `FILE` with a client's certificate, instead of a token")
	set.StringVar(&f.Key, "key", "", where+"the `FILE` with the certificate's private key")
	set.BoolVar(&f.Plaintext, "plaintext", false, where+
		"connect to another machine without TLS: others on the network can read the token and all messages")
}

// Names returns the names of the flags.
func Names() []string { return []string{"token-file", "ca", "cert", "key", "plaintext"} }

// Check returns an error if the URL of a gateway, or the flags for it, are invalid.
func (f *Flags) Check(u *url.URL) error {
	secure := u.Scheme == "wss" || u.Scheme == "https"
	switch {
	case u.User != nil || u.Fragment != "":
		return errors.New("a URL with a user or a fragment is not accepted: the token is in --token-file")
	case !secure && !f.Plaintext && !ofThisMachine(u.Hostname()):
		return fmt.Errorf("%s://%s has no TLS: everybody on the way would read the token; write %ss://, or accept it with --plaintext", u.Scheme, u.Host, u.Scheme)
	case (f.Cert == "") != (f.Key == ""):
		return errors.New("--cert and --key go together")
	case !secure && (f.CA != "" || f.Cert != ""):
		return fmt.Errorf("--ca, --cert and --key are for %ss://", u.Scheme)
	}
	return nil
}

func ofThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Token returns the token, or "" if a certificate authenticates the caller.
func (f *Flags) Token(call *command.Call) (string, error) {
	token := call.Env(TokenVariable)
	if f.TokenFile != "" {
		file, err := os.Open(f.TokenFile)
		if err != nil {
			return "", fmt.Errorf("read the token: %w", err)
		}
		defer file.Close()
		text, err := io.ReadAll(io.LimitReader(file, maxToken))
		if err != nil {
			return "", fmt.Errorf("read the token: %w", err)
		}
		token = string(text)
	}
	token = strings.TrimSpace(token)
	switch {
	case token == "" && f.Cert == "":
		return "", fmt.Errorf("the gateway asks who you are: give --token-file FILE, or $%s, with a token of \"acphost tokens create\", or --cert and --key", TokenVariable)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("the token is not one of \"acphost tokens create\": it has characters that no token has")
	}
	return token, nil
}

// TLS returns the configuration of the connection.
func (f *Flags) TLS() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca: there is no certificate in %s", f.CA)
		}
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("--cert and --key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Parse parses the URL of a gateway: wss://HOST/acp, the URL for its clients, or https://HOST.
func (f *Flags) Parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || !strings.Contains(" ws wss http https ", " "+u.Scheme+" ") || strings.Trim(u.Path, "/") != "" && u.Path != "/acp" || u.RawQuery != "" {
		return nil, fmt.Errorf("expected the URL of a gateway, such as wss://acp.example.org/acp, got %q", text)
	}
	return u, f.Check(u)
}

// Dial returns a connection to the services of the gateway at a URL of Parse. It connects at the first call.
func (f *Flags) Dial(call *command.Call, u *url.URL) (*client.Client, error) {
	token, err := f.Token(call)
	if err != nil {
		return nil, err
	}
	address, config := u.Host, (*tls.Config)(nil)
	if u.Scheme == "wss" || u.Scheme == "https" {
		if config, err = f.TLS(); err != nil {
			return nil, err
		}
	}
	if u.Port() == "" {
		port := "80"
		if config != nil {
			port = "443"
		}
		address = net.JoinHostPort(u.Hostname(), port)
	}
	return client.DialGateway(address, config, token)
}
