package notices

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/keyfiles"
)

const (
	// sendTimeout bounds sending a notice, including the answer.
	sendTimeout = 10 * time.Second
	// maxHeaders bounds the headers of an answer, and maxAnswer how much of its body is read, in bytes.
	maxHeaders, maxAnswer = 64 << 10, 1 << 10
)

// SignatureHeader carries the signature of a webhook's body: "sha256=" and the HMAC-SHA256 of the body in hexadecimal.
// The body contains the time.
const SignatureHeader = "Acphost-Signature"

// target is an address to which notices are sent.
type target struct {
	url    *url.URL
	secret string // path of a file; "": none
	client *http.Client
}

// newTarget parses an address, or the path of a file with an address, "@FILE", since some addresses are secret. secret
// is the path of a file with a secret.
func newTarget(address, secret string) (target, error) {
	if name, ok := strings.CutPrefix(address, "@"); ok {
		text, err := readSecret(name)
		if err != nil {
			return target{}, err
		}
		address = string(text)
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http": // err contains the address, which may be secret
		return target{}, errors.New("expected a URL such as https://example.org/PATH, or @FILE with one in it")
	case u.User != nil || u.Fragment != "":
		return target{}, errors.New("a URL with a user or a fragment is not accepted: secrets are in files")
	case u.Scheme == "http" && u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback():
		return target{}, fmt.Errorf("http://%s has no TLS: others on the way could send a person to a page of theirs; write https://", u.Host)
	}
	if secret != "" {
		if _, err := readSecret(secret); err != nil {
			return target{}, err
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives, transport.MaxResponseHeaderBytes = true, maxHeaders
	return target{u, secret, &http.Client{
		Timeout: sendTimeout, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// readSecret returns the only line of a file that other users cannot read. It is called for each notice, so that the
// secret can be changed.
func readSecret(name string) ([]byte, error) {
	b, err := keyfiles.ReadPrivate(name)
	if err != nil {
		return nil, err
	}
	if b = bytes.TrimSpace(b); len(b) == 0 || bytes.ContainsAny(b, "\r\n\x00") {
		return nil, fmt.Errorf("%s: expected one line", name)
	}
	return b, nil
}

// post sends a body. It does not follow redirects: the notice is for the configured address only.
func (t target) post(ctx context.Context, body []byte, headers map[string]string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w; %w", withoutURL(err), errFinal)
	}
	req.Header.Set("User-Agent", "acphost-gatewayd")
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	res, err := t.client.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	defer res.Body.Close()
	switch answer, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer)); {
	case res.StatusCode/100 == 2:
		return nil
	case res.StatusCode/100 == 3:
		return fmt.Errorf("%s answers %d: redirects are not followed; name the address to which it leads; %w", t.url.Host, res.StatusCode, errFinal)
	case res.StatusCode/100 == 4 && res.StatusCode != http.StatusTooManyRequests && res.StatusCode != http.StatusRequestTimeout:
		return fmt.Errorf("%s answers %d %q; %w", t.url.Host, res.StatusCode, singleLine(string(answer), maxDetails), errFinal)
	default:
		return fmt.Errorf("%s answers %d %q", t.url.Host, res.StatusCode, singleLine(string(answer), maxDetails))
	}
}

// withoutURL returns an error without the address that net/http adds.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// webhook is a Channel.
type webhook struct{ target }

// NewWebhook returns the Channel that posts notices as JSON to an address, or to that in a file, "@FILE". secret is a
// file, readable only by its owner, with the secret for signatures; "": no signatures.
func NewWebhook(address, secret string) (Channel, error) {
	t, err := newTarget(address, secret)
	return &webhook{t}, err
}

func (w *webhook) String() string { return "the webhook at " + w.url.Host }

// message is the body of a post.
type message struct {
	// ID is unique.
	ID string `json:"id"`
	// Time is when the notice was sent.
	Time time.Time `json:"time"`
	// Text is for people. It contains no text of the agent.
	Text      string     `json:"text"`
	Count     int        `json:"count"`
	Link      string     `json:"link"`
	Questions []Question `json:"questions"`
}

// Send implements Channel.
func (w *webhook) Send(ctx context.Context, n Notice) error {
	body, err := json.Marshal(message{rand.Text(), time.Now().UTC(), n.Title + ". " + n.Text + " " + n.Link, n.Count, n.Link, n.Questions})
	if err != nil {
		return fmt.Errorf("%w; %w", err, errFinal)
	}
	headers := map[string]string{"Content-Type": "application/json"}
	if w.secret != "" {
		secret, err := readSecret(w.secret)
		if err != nil {
			return err
		}
		mac := hmac.New(sha256.New, secret)
		_, _ = mac.Write(body)
		headers[SignatureHeader] = "sha256=" + hex.EncodeToString(mac.Sum(nil))
	}
	return w.post(ctx, body, headers)
}

// ntfy is a Channel.
type ntfy struct{ target }

// NewNtfy returns the Channel that posts notices to a topic of ntfy, or to that in a file, "@FILE". token is a file,
// readable only by its owner, with an access token; "": none.
func NewNtfy(topic, token string) (Channel, error) {
	t, err := newTarget(topic, token)
	if err == nil && strings.Trim(t.url.Path, "/") == "" {
		err = errors.New("expected the URL of a topic, such as https://ntfy.sh/TOPIC")
	}
	return &ntfy{t}, err
}

func (t *ntfy) String() string { return "ntfy at " + t.url.Host }

// Send implements Channel.
func (t *ntfy) Send(ctx context.Context, n Notice) error {
	headers := map[string]string{"Content-Type": "text/plain; charset=utf-8", "Title": n.Title, "Click": n.Link}
	if t.secret != "" {
		token, err := readSecret(t.secret)
		if err != nil {
			return err
		}
		headers["Authorization"] = "Bearer " + string(token)
	}
	return t.post(ctx, []byte(n.body()), headers)
}

// body returns the text below the title.
func (n Notice) body() string { return strings.TrimSpace(n.Text + "\n" + n.Details) }
