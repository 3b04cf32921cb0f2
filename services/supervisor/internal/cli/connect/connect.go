// Package connect is "acphost connect": an agent elsewhere, behind ACP's remote transport, as a program that speaks ACP on its
// standard input and output.
package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/coder/websocket"
	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

const long = `Speak ACP with an agent elsewhere: what comes from standard input goes to the gateway at
URL, over WebSocket, and what comes from there to standard output. So it is a command
like that of an agent. With "acphost run" before it, your policy, your handlers and your
record stand before an agent on another machine:

    acphost run --policy workspace -- acphost connect wss://acp.example.org/acp

The gateway knows you by a token, which "acphost tokens create" makes there, or by a client's
certificate. The token is read from --token-file or from $ACPHOST_TOKEN, and never from
the command line, which other processes can read.

When standard input ends, requests that are open get the time that their answers need;
then the connection is closed. A connection that breaks ends this command: the client
starts it again, and loads its session.`

const exits = `
Exit status:
  0   standard input ended, or the gateway closed the connection in order
  1   there is no connection, or it broke
  2   it was called wrongly

Environment:
  ACPHOST_TOKEN   the token, where --token-file is not given
`

// tokenVariable holds a token.
const tokenVariable = "ACPHOST_TOKEN" //nolint:gosec // a variable's name

// maxToken bounds a file with a token, in bytes: one that was named by mistake is not read whole.
const maxToken = 64 << 10

// flags are the flags of "connect".
type flags struct {
	tokenFile, agent, ca, cert, key string
	plaintext                       bool
}

// New returns the command "connect".
func New(call *command.Call) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "connect URL",
		Short: "Speak ACP with an agent elsewhere, through a gateway",
		Long:  long,
		Example: `  acphost connect wss://acp.example.org/acp --token-file ~/.config/acphost/laptop.token
  acphost run -- acphost connect wss://acp.example.org/acp --agent claude --token-file laptop.token
  acphost prompt "What is here?" -- acphost connect wss://acp.example.org/acp --ca ca.crt --token-file laptop.token`,
		Args: command.OneArgument("one URL, such as wss://acp.example.org/acp", "it is that of the gateway"),
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := f.target(args[0])
			if err != nil {
				return command.WrongUse(cmd, "%v", err)
			}
			header, err := f.header(call)
			if err != nil {
				return err
			}
			secure, err := f.tls()
			if err != nil {
				return err
			}
			return connect(cmd.Context(), target, header, secure, call.Stdin, call.Stdout)
		},
	}
	cmd.Annotations = map[string]string{command.Sections: exits}
	set := cmd.Flags()
	set.StringVar(&f.tokenFile, "token-file", "", "the `FILE` with the token")
	set.StringVar(&f.agent, "agent", "", "the gateway's agent of this `NAME`; default: the one that the gateway names")
	set.StringVar(&f.ca, "ca", "", "the `FILE` with the authority that has signed the gateway's certificate; default: the system's authorities")
	set.StringVar(&f.cert, "cert", "", "the `FILE` with a client's certificate, instead of a token")
	set.StringVar(&f.key, "key", "", "the `FILE` with the certificate's private key")
	set.BoolVar(&f.plaintext, "plaintext", false, "connect to ws:// of another machine: everybody on the way reads the token and all that is said")
	return cmd
}

// target is the URL to connect to.
func (f *flags) target(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss":
		return "", fmt.Errorf("expected a URL such as wss://acp.example.org/acp, got %q", text)
	case u.User != nil || u.Fragment != "":
		return "", errors.New("a URL with a user or a fragment is not taken: the token is in --token-file")
	case u.Scheme == "ws" && !f.plaintext && !ofThisMachine(u.Hostname()):
		return "", fmt.Errorf("ws://%s has no TLS: everybody on the way would read the token; write wss://, or accept it with --plaintext", u.Host)
	case (f.cert == "") != (f.key == ""):
		return "", errors.New("--cert and --key go together")
	case u.Scheme == "ws" && (f.ca != "" || f.cert != ""):
		return "", errors.New("--ca, --cert and --key are for wss://")
	}
	if f.agent != "" {
		q := u.Query()
		q.Set("agent", f.agent)
		u.RawQuery = q.Encode()
	}
	return u.String(), nil
}

func ofThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// header is what says who calls.
func (f *flags) header(call *command.Call) (http.Header, error) {
	token := call.Env(tokenVariable)
	if f.tokenFile != "" {
		file, err := os.Open(f.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("read the token: %w", err)
		}
		defer file.Close()
		text, err := io.ReadAll(io.LimitReader(file, maxToken))
		if err != nil {
			return nil, fmt.Errorf("read the token: %w", err)
		}
		token = string(text)
	}
	token = strings.TrimSpace(token)
	switch {
	case token == "" && f.cert == "":
		return nil, fmt.Errorf("the gateway asks who you are: give --token-file FILE, or $%s, with a token of \"acphost tokens create\", or --cert and --key", tokenVariable)
	case token == "":
		return http.Header{}, nil
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("the token is not one of \"acphost tokens create\": it has characters that no token has")
	}
	return http.Header{"Authorization": {"Bearer " + token}}, nil
}

func (f *flags) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--ca: there is no certificate in %s", f.ca)
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("--cert and --key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// maxAnswer bounds what is shown of a refusal, in bytes.
const maxAnswer = 1 << 10

// connect opens the WebSocket, and returns when the connection is over.
func connect(ctx context.Context, target string, header http.Header, secure *tls.Config, in io.Reader, out io.Writer) error {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, transport.ForceAttemptHTTP2 = secure, false
	defer transport.CloseIdleConnections()
	ws, refusal, err := websocket.Dial(ctx, target, &websocket.DialOptions{ //nolint:bodyclose // "You never need to close resp.Body yourself"
		HTTPHeader: header, CompressionMode: websocket.CompressionDisabled,
		// A redirect would take the token to somebody else.
		HTTPClient: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	})
	where, _, _ := strings.Cut(target, "?")
	if err != nil {
		return fmt.Errorf("connect to %s: %w", where, refused(refusal, err))
	}
	ws.SetReadLimit(maxFrame)
	if err := newBridge(ws, in, out).run(ctx); err != nil {
		return fmt.Errorf("the connection to %s: %w", where, err)
	}
	return nil
}

// refused says why there is no connection, in the gateway's words where it has said any.
func refused(r *http.Response, err error) error {
	if r == nil {
		return err
	}
	var text []byte
	if r.Body != nil {
		text, _ = io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	}
	said := ""
	if line := safetext.Line(strings.TrimSpace(string(text))); line != "" {
		said = ": " + line
	}
	what := fmt.Sprintf("the gateway answers %d %s%s", r.StatusCode, http.StatusText(r.StatusCode), said)
	switch r.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%s; is the token one of this gateway's, of the role operator, and not expired?", what)
	case http.StatusNotFound:
		return fmt.Errorf("%s; a gateway of acphost serves /acp", what)
	}
	if r.StatusCode/100 == 3 {
		return fmt.Errorf("%s; redirects are not followed: name the address that it leads to, %q, if you trust it", what, safetext.Line(r.Header.Get("Location")))
	}
	return errors.New(what)
}
