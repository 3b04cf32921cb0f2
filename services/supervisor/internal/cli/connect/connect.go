// Package connect implements "acphost connect": connects standard input and output to an agent behind a gateway.
package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/coder/websocket"
	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/gateway"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

const long = `Connect standard input and output to an agent behind the gateway at URL, over
WebSocket. You can use this command like the command of an agent. With "acphost run"
before it, your policy, your handlers and your records apply to an agent on another
machine:

    acphost run --policy workspace -- acphost connect wss://acp.example.org/acp

The gateway authenticates you by a token of "acphost tokens create", or by a
client's certificate. The command reads the token from --token-file or
$ACPHOST_TOKEN, because other processes can read command lines.

When standard input ends, the command waits for the answers to open requests, and
closes the connection. If the connection breaks, the command ends: the client must
start it again, and load its session.`

const exits = `
Exit status:
  0   standard input ended, or the gateway closed the connection
  1   there was no connection, or it broke
  2   wrong usage
  128 and the signal's number, if a signal ended it

Environment:
` + gateway.Environment

// flags are the flags of "connect".
type flags struct {
	gateway.Flags
	agent string
}

// New returns the command "connect".
func New(call *command.Call) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "connect URL",
		Short: "Connect to an agent behind a gateway",
		Long:  long,
		Example: `  acphost connect wss://acp.example.org/acp --token-file ~/.config/acphost/laptop.token
  acphost run -- acphost connect wss://acp.example.org/acp --agent claude --token-file laptop.token
  acphost prompt "What is here?" -- acphost connect wss://acp.example.org/acp --ca ca.crt --token-file laptop.token`,
		Args: command.OneArgument("one URL, such as wss://acp.example.org/acp", "it is that of the gateway"),
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := f.target(args[0])
			if err != nil {
				return command.UsageErrorf(cmd, "%v", err)
			}
			header, err := f.header(call)
			if err != nil {
				return err
			}
			secure, err := f.TLS()
			if err != nil {
				return err
			}
			return connect(cmd.Context(), target, header, secure, call.Stdin, call.Stdout)
		},
	}
	cmd.Annotations = map[string]string{command.Sections: exits}
	set := cmd.Flags()
	f.Register(set, "")
	set.StringVar(&f.agent, "agent", "", "the gateway's agent of this `NAME`; default: the gateway's default agent")
	return cmd
}

// target returns the URL to connect to.
func (f *flags) target(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss" {
		return "", fmt.Errorf("expected a URL such as wss://acp.example.org/acp, got %q", text)
	}
	if err := f.Check(u); err != nil {
		return "", err
	}
	if f.agent != "" {
		q := u.Query()
		q.Set("agent", f.agent)
		u.RawQuery = q.Encode()
	}
	return u.String(), nil
}

// header returns the HTTP header with the credentials.
func (f *flags) header(call *command.Call) (http.Header, error) {
	token, err := f.Token(call)
	if err != nil || token == "" {
		return http.Header{}, err
	}
	return http.Header{"Authorization": {"Bearer " + token}}, nil
}

// maxAnswer limits the bytes of an error response that are shown.
const maxAnswer = 1 << 10

// connect opens the WebSocket, and returns when the connection has ended.
func connect(ctx context.Context, target string, header http.Header, secure *tls.Config, in io.Reader, out io.Writer) error {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, transport.ForceAttemptHTTP2 = secure, false
	defer transport.CloseIdleConnections()
	ws, refusal, err := websocket.Dial(ctx, target, &websocket.DialOptions{ //nolint:bodyclose // "You never need to close resp.Body yourself"
		HTTPHeader: header, CompressionMode: websocket.CompressionDisabled,
		// Do not follow redirects, which would send the token to another server.
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

// refused returns the error of a failed connection, with the gateway's text if there is one.
func refused(r *http.Response, err error) error {
	if r == nil {
		if message, refused := command.CertificateRefusal(err.Error()); refused {
			return errors.New(safetext.Line(message))
		}
		return err
	}
	var text []byte
	if r.Body != nil {
		text, _ = io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	}
	message := ""
	if line := safetext.Line(strings.TrimSpace(string(text))); line != "" {
		message = ": " + line
	}
	what := fmt.Sprintf("the gateway answers %d %s%s", r.StatusCode, http.StatusText(r.StatusCode), message)
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
