package egress

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/testkit"
)

// roleVar makes this test binary a client of the proxy instead of running tests.
const roleVar = "EGRESS_TEST_ROLE"

// play plays a role and returns the exit status. There are roles on Linux alone, where programs are confined.
var play = func(role string, _ []string) int { panic("there is no role " + role) }

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == sandbox.Command {
		os.Exit(sandbox.Main())
	}
	if role := os.Getenv(roleVar); role != "" {
		os.Exit(play(role, os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// names are what the tests' resolver knows.
var names = map[string]string{
	"allowed.test": "127.0.0.1", "plain.test": "127.0.0.1", "six.test": "::1", "metadata.test": "169.254.169.254", "mixed.test": "127.0.0.1 169.254.169.254",
	"asked.test": "127.0.0.1", "denied.test": "127.0.0.1", "empty.test": "",
}

// decider allows what a rule would that names the loopback interface, by the beginning of the name.
type decider struct {
	mu  sync.Mutex
	saw []string // what was decided on
}

func (d *decider) decide(_ context.Context, to Target) Decision {
	d.mu.Lock()
	d.saw = append(d.saw, fmt.Sprintf("%s%v", to.Host, to.Addresses))
	d.mu.Unlock()
	switch name, _, _ := strings.Cut(to.Host.String(), "."); name {
	case "denied":
		return Decision{Reason: "rule no-thanks\r\nX-Evil: 1"}
	case "asked":
		return Decision{Verdict: Ask}
	case "plain": // allowed by a rule that names no address
		return Decision{Verdict: Allow}
	}
	return Decision{Verdict: Allow, Special: true}
}

type rig struct {
	*Proxy
	*decider
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	d := &decider{}
	if o.Decide == nil {
		o.Decide = d.decide
	}
	if o.LookUp == nil {
		o.LookUp = func(_ context.Context, name string) (found []netip.Addr, err error) {
			list, ok := names[name]
			if !ok {
				return nil, &net.DNSError{Name: name, IsNotFound: true}
			}
			for text := range strings.FieldsSeq(list) {
				found = append(found, netip.MustParseAddr(text))
			}
			return found, nil
		}
	}
	p, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return &rig{p, d}
}

// dial sends lines to the proxy, with the secret for SECRET.
func (r *rig) dial(t *testing.T, request string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", r.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testkit.Timeout()))
	secret := "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("agent:"+r.secret))
	if _, err := io.WriteString(conn, strings.ReplaceAll(request, "SECRET", secret)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// established reads the answer to CONNECT.
func established(t *testing.T, conn net.Conn) {
	t.Helper()
	const want = "HTTP/1.1 200 Connection established\r\n\r\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("got %q, %v", got, err)
	}
}

// ask returns the whole answer to a request.
func (r *rig) ask(t *testing.T, request string) string {
	t.Helper()
	answer, err := io.ReadAll(r.dial(t, request))
	if err != nil && len(answer) == 0 {
		t.Fatalf("%.80q: %v", request, err)
	}
	return string(answer)
}

func (r *rig) connect(t *testing.T, to string) string {
	t.Helper()
	return r.ask(t, "CONNECT "+to+" HTTP/1.1\r\nHost: "+to+"\r\nSECRET\r\n\r\n")
}

// client is a client of net/http that uses the proxy.
func (r *rig) client(t *testing.T) *http.Client {
	t.Helper()
	at, err := url.Parse(r.URL())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(at)}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// echo is a server that sends back what it gets, and ends when the client has.
func echo(t *testing.T, network string) (port string) {
	t.Helper()
	host := map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0"}[network]
	l, err := net.Listen(network, host)
	if err != nil {
		t.Skipf("no %s here: %v", network, err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

func TestTunnel_CopiesBothDirections(t *testing.T) {
	r := newRig(t, Options{})
	for network, host := range map[string]string{"tcp4": "allowed.test", "tcp6": "six.test"} {
		t.Run(network, func(t *testing.T) {
			port := echo(t, network)
			// The first data comes with the request, before there is a tunnel.
			conn := r.dial(t, "CONNECT "+host+":"+port+" HTTP/1.1\r\nSECRET\r\n\r\nfirst ")
			established(t, conn)
			if _, err := io.WriteString(conn, strings.Repeat("x", 1<<20)); err != nil {
				t.Fatal(err)
			}
			if err := conn.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(conn)
			want := "first " + strings.Repeat("x", 1<<20)
			if err != nil || string(got) != want {
				t.Errorf("got %d bytes (%.60q…), %v; want %d", len(got), got, err, len(want))
			}
		})
	}
}

func TestProxy_ServesNetHTTPClient(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %q %q", r.Method, r.Host, body, r.Header["Proxy-Authorization"], r.Header["Proxy-Connection"])
	})
	plain, tls := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer tls.Close()
	r := newRig(t, Options{})
	client := r.client(t)
	trusting := tls.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trusting.ServerName = "example.com"
	client.Transport.(*http.Transport).TLSClientConfig = trusting
	for scheme, server := range map[string]*httptest.Server{"http": plain, "https": tls} {
		host := fmt.Sprintf("allowed.test:%d", server.Listener.Addr().(*net.TCPAddr).Port)
		for range 2 {
			resp, err := client.Post(scheme+"://"+host+"/x", "text/plain", strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if want := "POST " + host + " body [] []"; err != nil || string(got) != want {
				t.Errorf("%s: got %q, %v, want %q", scheme, got, err, want)
			}
		}
	}
	resp, err := client.Get("https://denied.test/")
	if err == nil {
		resp.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "refused: connect to denied.test:443: rule no-thanks") {
		t.Errorf("got %v, want the reason in words", err)
	}
}

func TestProxy_RefusesWithReason(t *testing.T) {
	r := newRig(t, Options{})
	port := echo(t, "tcp4")
	for to, want := range map[string]string{
		"denied.test:1":                        "403 acphost: refused: connect to denied.test:1: rule no-thanks??X-Evil: 1",
		"asked.test:1":                         "403 acphost: refused: connect to asked.test:1; the user has been asked: try again after the answer",
		"plain.test:" + port:                   "is not public, and no rule names it",
		"metadata.test:80":                     "403 acphost: refused: connect to metadata.test:80 (169.254.169.254): this address gives out the cloud keys",
		"mixed.test:" + port:                   "169.254.169.254): this address gives out the cloud keys",
		"169.254.169.254:80":                   "169.254.169.254): this address gives out the cloud keys",
		"[::ffff:169.254.169.254]:80":          "169.254.169.254): this address gives out the cloud keys",
		"[::ffff:a9fe:a9fe]:80":                "169.254.169.254): this address gives out the cloud keys",
		"[64:ff9b::169.254.169.254]:80":        "64:ff9b::a9fe:a9fe): this address gives out the cloud keys",
		"[fd00:ec2::254]:80":                   "fd00:ec2::254): this address gives out the cloud keys",
		"2852039166:80":                        "400 acphost: CONNECT takes HOST:PORT: an address of IPv4 is four decimal numbers",
		"0251.0376.0251.0376:80":               "400 acphost: CONNECT takes HOST:PORT: an address of IPv4 is four decimal numbers",
		"0xa9fea9fe:80":                        "400 acphost: CONNECT takes HOST:PORT: an address of IPv4 is four decimal numbers",
		"169.254.43518:80":                     "400 acphost: CONNECT takes HOST:PORT: an address of IPv4 is four decimal numbers",
		"[fe80::1%25lo]:80":                    "400 acphost: CONNECT takes HOST:PORT: ",
		"allowed.test":                         "400 acphost: CONNECT takes HOST:PORT: there is no port",
		"allowed.test:0":                       "400 acphost: CONNECT takes HOST:PORT: a port is a number",
		"agent@allowed.test:" + port:           "400 ",
		"allowed.test@metadata.test:" + port:   "400 ",
		"/:80":                                 "400 ",
		"nowhere.test:1":                       "502 acphost: the address of nowhere.test could not be found: there is no such name",
		"empty.test:1":                         "502 acphost: the address of empty.test could not be found: it has no address",
		"allowed.test:" + closedPort(t):        "502 acphost: allowed.test:",
		"allowed.test:" + addressPort(r.Proxy): "acphost's own proxy",
		"127.0.0.1:" + addressPort(r.Proxy):    "acphost's own proxy",
		strings.Repeat("a.", 200) + "test:1":   "400 acphost: CONNECT takes HOST:PORT: the name has more than 253 characters",
		"b%c3%bccher.test:1":                   "400 ",
		"allowed.test:80:80":                   "400 ",
		"allowed.test:" + port + "/../evil":    "400 ",
		"allowed.test:" + port + "?x":          "400 ",
		"*:80":                                 "400 ",
		"[127.0.0.1]:" + port:                  "400 ",
		"[::1:80":                              "400 ",
		"allowed.test.evil\t:80":               "400 ",
	} {
		status, _, _ := strings.Cut(r.connect(t, to), "\r\n")
		if !strings.HasPrefix(status, "HTTP/1.1 ") || !strings.Contains(status, want) {
			t.Errorf("%.100s: got %q, want %q", to, status, want)
		}
	}
	answer := r.connect(t, "denied.test:1")
	if _, body, _ := strings.Cut(answer, "\r\n\r\n"); strings.Contains(answer, "\nX-Evil") || !strings.Contains(body, "acphost: refused: connect to denied.test:1") {
		t.Errorf("got %q, want one header, and the words in the body, too", answer)
	}
	// A refused name is not looked up, so that no name carries data out.
	r.decider.mu.Lock()
	defer r.decider.mu.Unlock()
	if slices.Contains(r.saw, "denied.test[127.0.0.1]") || !slices.Contains(r.saw, "denied.test[]") || !slices.Contains(r.saw, "mixed.test[127.0.0.1 169.254.169.254]") {
		t.Errorf("got decisions on %q", r.saw)
	}
}

func addressPort(p *Proxy) string { return fmt.Sprint(p.Address().Port()) }

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func TestProxy_HostileRequests(t *testing.T) {
	var got struct {
		sync.Mutex
		requests []string
	}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got.Lock()
		defer got.Unlock()
		got.requests = append(got.requests, r.Host+" "+r.RequestURI+" "+fmt.Sprint(r.Header["X-Kept"], r.Header["X-Hop"], r.Header["Proxy-Authorization"]))
	}))
	defer server.Close()
	host := fmt.Sprintf("allowed.test:%d", server.Listener.Addr().(*net.TCPAddr).Port)
	r := newRig(t, Options{HeaderTimeout: 200 * time.Millisecond})
	for name, c := range map[string]struct{ request, want string }{
		"no secret":                   {"CONNECT " + host + " HTTP/1.1\r\n\r\n", "HTTP/1.1 407 "},
		"a wrong secret":              {"CONNECT " + host + " HTTP/1.1\r\nProxy-Authorization: Basic YWdlbnQ6eA==\r\n\r\n", "HTTP/1.1 407 "},
		"the secret as the server's":  {"CONNECT " + host + " HTTP/1.1\r\nAuthorization: " + "Basic YWdlbnQ6eA==\r\n\r\n", "HTTP/1.1 407 "},
		"two secrets":                 {"CONNECT " + host + " HTTP/1.1\r\nSECRET\r\nSECRET\r\n\r\n", "HTTP/1.1 407 "},
		"a user in the URL":           {"GET http://u:p@" + host + "/ HTTP/1.1\r\nHost: x\r\nSECRET\r\n\r\n", "HTTP/1.1 400 acphost: the URL has a user in it"},
		"a user that is a host":       {"GET http://" + host + "@metadata.test/ HTTP/1.1\r\nHost: x\r\nSECRET\r\n\r\n", "HTTP/1.1 400 "},
		"another scheme":              {"GET https://" + host + "/ HTTP/1.1\r\nHost: x\r\nSECRET\r\n\r\n", "HTTP/1.1 400 acphost: this proxy takes requests for http URLs"},
		"a path":                      {"GET / HTTP/1.1\r\nHost: " + host + "\r\nSECRET\r\n\r\n", "HTTP/1.1 400 acphost: this is a proxy"},
		"OPTIONS *":                   {"OPTIONS * HTTP/1.1\r\nHost: " + host + "\r\nSECRET\r\n\r\n", "HTTP/1.1 400 acphost: this is a proxy"},
		"metadata by a URL":           {"GET http://metadata.test/latest/ HTTP/1.1\r\nHost: allowed.test\r\nSECRET\r\n\r\n", "HTTP/1.1 403 acphost: refused: connect to metadata.test:80"},
		"an octal address in a URL":   {"GET http://0251.0376.0251.0376/ HTTP/1.1\r\nHost: x\r\nSECRET\r\n\r\n", "HTTP/1.1 400 acphost: the host of the URL: an address of IPv4"},
		"no port after a colon":       {"GET http://allowed.test:/ HTTP/1.1\r\nHost: x\r\nSECRET\r\n\r\n", "HTTP/1.1 400 acphost: the host of the URL: a port"},
		"a line break in the name":    {"CONNECT allowed.test\rX:1 HTTP/1.1\r\nSECRET\r\n\r\n", "HTTP/1.1 400 "},
		"a line break in the URL":     {"GET http://" + host + "/%0d%0aX-Kept:%201 HTTP/1.1\r\nHost: x\r\nSECRET\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 "},
		"a huge header":               {"CONNECT " + host + " HTTP/1.1\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "HTTP/1.1 431 "},
		"two lengths":                 {"POST http://" + host + "/two HTTP/1.1\r\nHost: x\r\nSECRET\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "HTTP/1.1 400 "},
		"an unknown encoding":         {"POST http://" + host + "/enc HTTP/1.1\r\nHost: x\r\nSECRET\r\nTransfer-Encoding: xchunked\r\n\r\n", "HTTP/1.1 501 "},
		"a header folded over lines":  {"GET http://" + host + "/fold HTTP/1.1\r\nHost: x\r\nSECRET\r\nX-Kept : 1\r\n\r\n", "HTTP/1.1 400 "},
		"another host in the header":  {"GET http://" + host + "/host HTTP/1.1\r\nHost: metadata.test\r\nX-Kept: 1\r\nX-Hop: 1\r\nConnection: X-Hop, close\r\nSECRET\r\n\r\n", "HTTP/1.1 200 "},
		"HTTP/2 without an agreement": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 "},
		"nonsense":                    {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "HTTP/1.1 400 "},
		"half of a header":            {"CONNECT " + host + " HTTP/1.1\r\nX-", ""}, // it ends with the timeout
	} {
		t.Run(name, func(t *testing.T) {
			conn := r.dial(t, c.request)
			answer, _ := io.ReadAll(conn)
			if !strings.HasPrefix(string(answer), c.want) || c.want == "" && len(answer) > 0 && !strings.HasPrefix(string(answer), "HTTP/1.1 4") {
				t.Errorf("got %.200q, want %q", answer, c.want)
			}
		})
	}
	got.Lock()
	defer got.Unlock()
	slices.Sort(got.requests)
	want := []string{host + " /%0d%0aX-Kept:%201 [] [] []", host + " /host [1] [] []"}
	if !slices.Equal(got.requests, want) {
		t.Errorf("the server got %q, want %q", got.requests, want)
	}
}

// The second of two requests on one connection is decided on by itself.
func TestProxy_DecidesEachRequestOfConnection(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }))
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	r := newRig(t, Options{})
	conn := r.dial(t, fmt.Sprintf("GET http://allowed.test:%d/ HTTP/1.1\r\nHost: x\r\nSECRET\r\n\r\nGET http://denied.test:%d/ HTTP/1.1\r\nHost: x\r\nSECRET\r\n\r\n", port, port))
	reader := bufio.NewReader(conn)
	for _, want := range []string{"200 OK here", "403 acphost: refused: connect to denied.test"} {
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if got := resp.Status + " " + string(body); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The name leads elsewhere at its second look-up: what was checked is what is connected to.
func TestProxy_ResolvesNameOnce(t *testing.T) {
	port := echo(t, "tcp4")
	var times atomic.Int32
	r := newRig(t, Options{LookUp: func(context.Context, string) ([]netip.Addr, error) {
		if times.Add(1) > 1 {
			return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("::ffff:127.0.0.1")}, nil
	}})
	conn := r.dial(t, "CONNECT rebinding.test:"+port+" HTTP/1.1\r\nSECRET\r\n\r\n")
	established(t, conn)
	_ = conn.CloseWrite()
	if got, err := io.ReadAll(conn); err != nil || len(got) > 0 || times.Load() != 1 {
		t.Errorf("got %q, %v after %d look-ups", got, err, times.Load())
	}
	r.decider.mu.Lock()
	defer r.decider.mu.Unlock()
	if !slices.Equal(r.saw, []string{"rebinding.test[]", "rebinding.test[127.0.0.1]"}) {
		t.Errorf("got decisions on %q", r.saw)
	}
}

func TestProxy_Timeouts(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"a decision": {Options{Decide: func(ctx context.Context, _ Target) Decision { <-ctx.Done(); return Decision{Verdict: Allow} }},
			"403 acphost: refused: connect to a.test:1"},
		"a look-up": {Options{LookUp: func(ctx context.Context, _ string) ([]netip.Addr, error) { <-ctx.Done(); return nil, ctx.Err() }},
			"502 acphost: the address of a.test could not be found: it took too long"},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Timeout = 30 * time.Millisecond
			if got := newRig(t, c.o).connect(t, "a.test:1"); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTunnel_IdleTimeout(t *testing.T) {
	r := newRig(t, Options{Idle: 50 * time.Millisecond})
	conn := r.dial(t, "CONNECT allowed.test:"+echo(t, "tcp4")+" HTTP/1.1\r\nSECRET\r\n\r\n")
	if got, err := io.ReadAll(conn); !strings.HasPrefix(string(got), "HTTP/1.1 200 ") {
		t.Errorf("got %q, %v, want a tunnel that ends", got, err)
	}
}

// A client that reads nothing stops the server that sends to it, and nothing else.
func TestProxy_SlowClientBlocksNoOthers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var sender sync.WaitGroup
	sender.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for block := make([]byte, 1<<20); err == nil; {
			_, err = conn.Write(block)
		}
	})
	r := newRig(t, Options{})
	_, port, _ := net.SplitHostPort(l.Addr().String())
	slow := r.dial(t, "CONNECT allowed.test:"+port+" HTTP/1.1\r\nSECRET\r\n\r\n")
	if _, err := io.ReadFull(slow, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	other := r.dial(t, "CONNECT allowed.test:"+echo(t, "tcp4")+" HTTP/1.1\r\nSECRET\r\n\r\nhello")
	established(t, other)
	_ = other.CloseWrite()
	if got, err := io.ReadAll(other); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := r.Close(); err != nil { // with the slow tunnel open
		t.Error(err)
	}
	sender.Wait()
}

func TestProxy_LimitsConnections(t *testing.T) {
	r := newRig(t, Options{MaxConnections: 2})
	port := echo(t, "tcp4")
	first := r.dial(t, "CONNECT allowed.test:"+port+" HTTP/1.1\r\nSECRET\r\n\r\n")
	second := r.dial(t, "CONNECT allowed.test:"+port+" HTTP/1.1\r\nSECRET\r\n\r\n")
	for _, conn := range []net.Conn{first, second} {
		if _, err := io.ReadFull(conn, make([]byte, 12)); err != nil {
			t.Fatal(err)
		}
	}
	third := r.dial(t, "CONNECT denied.test:1 HTTP/1.1\r\nSECRET\r\n\r\n")
	_ = third.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := third.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want the third to wait", err)
	}
	_ = first.Close()
	_ = third.SetReadDeadline(time.Now().Add(testkit.Timeout()))
	if got, err := io.ReadAll(third); !strings.HasPrefix(string(got), "HTTP/1.1 403 ") {
		t.Errorf("got %q, %v after the first has ended", got, err)
	}
}

func TestClose_EndsDecisionsTunnelsAndRequests(t *testing.T) {
	asked := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer hangs.Close()
	r := newRig(t, Options{})
	r.Decide = func(ctx context.Context, to Target) Decision {
		if to.Host.Name == "slow.test" {
			asked <- struct{}{}
			<-ctx.Done()
		}
		return Decision{Verdict: Allow, Special: true}
	}
	tunnel := r.dial(t, "CONNECT allowed.test:"+echo(t, "tcp4")+" HTTP/1.1\r\nSECRET\r\n\r\n")
	if _, err := io.ReadFull(tunnel, make([]byte, 12)); err != nil {
		t.Fatal(err)
	}
	conns := []net.Conn{tunnel,
		r.dial(t, "CONNECT slow.test:1 HTTP/1.1\r\nSECRET\r\n\r\n"),
		r.dial(t, fmt.Sprintf("GET http://allowed.test:%d/ HTTP/1.1\r\nHost: x\r\nSECRET\r\n\r\n", hangs.Listener.Addr().(*net.TCPAddr).Port))}
	<-asked
	<-asked
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	for _, conn := range conns {
		_, _ = io.Copy(io.Discard, conn) // it ends
	}
	if _, err := net.Dial("tcp", r.Address().String()); err == nil {
		t.Error("it still listens")
	}
}

func TestSecret_IsInEnvironmentNotInLog(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t, Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	r.connect(t, "denied.test:1")
	conn := r.dial(t, "CONNECT allowed.test:"+echo(t, "tcp4")+" HTTP/1.1\r\nSECRET\r\n\r\n")
	established(t, conn)
	_ = conn.CloseWrite()
	_, _ = io.ReadAll(conn)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"to=denied.test:1", "reason=", "to=allowed.test:", "address=127.0.0.1:"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, &log)
		}
	}
	if strings.Contains(log.String(), r.secret) {
		t.Error("the secret is in the log")
	}
	env := r.Env()
	for _, want := range []string{"HTTPS_PROXY=" + r.URL(), "http_proxy=" + r.URL(), "ALL_PROXY=" + r.URL(), "NO_PROXY=", "no_proxy=", "NODE_USE_ENV_PROXY=1"} {
		if !slices.Contains(env, want) {
			t.Errorf("the environment has no %q", want)
		}
	}
	if len(r.secret) < 26 {
		t.Errorf("the secret has %d characters", len(r.secret))
	}
}
