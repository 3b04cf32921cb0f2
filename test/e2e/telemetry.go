package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// measured is a supervisor that serves metrics.
type measured struct {
	*Server
	address, Keys string
	http          *http.Client // as Prometheus
}

// Measure runs "acphost serve" with metrics.
func (p *Place) Measure(t *testing.T) *measured {
	t.Helper()
	return p.MeasureWith(t, "telemetry: {prometheus: true}\n")
}

// MeasureWith is measure with settings of telemetry.
func (p *Place) MeasureWith(t *testing.T, telemetry string) *measured {
	t.Helper()
	m := &measured{address: testkit.FreePort(t), Keys: filepath.Join(p.Home, "keys")}
	p.MakeKeys(t, m.Keys)
	if status, out, errs := p.Cli(t, "certs", "client", m.Keys, "prometheus:metrics"); status != 0 {
		t.Fatalf("acphost certs client: %s%s", out, errs)
	}
	config := p.Config(t, telemetry+"permission: {policy: workspace}\n")
	m.Server = p.Serve(t, slices.Concat([]string{"--listen", m.address, "--tls-dir", p.Deploy(t, m.Keys)}, config))
	pair, err := tls.LoadX509KeyPair(m.key("client.crt"), m.key("client.key"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(m.key("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}}
	t.Cleanup(transport.CloseIdleConnections)
	m.http = &http.Client{Transport: transport, Timeout: testkit.Timeout()}
	return m
}

func (m *measured) key(name string) string { return filepath.Join(m.Keys, "prometheus", name) }

// Scrape reads the metrics.
func (m *measured) Scrape() string {
	m.T.Helper()
	return Fetch(m.Ctx, m.T, m.http, "https://"+m.address+"/metrics")
}

// Fetch gets a page, which must be there.
func Fetch(ctx context.Context, t testing.TB, client *http.Client, address string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v: %s", address, res.StatusCode, err, body)
	}
	return string(body)
}

// Work has an agent do something of everything that is measured.
func (m *measured) Work() {
	m.T.Helper()
	demo := m.Demo()
	demo.Attended = true
	id := m.Open(m.Start(demo).GetId()).GetSessionId()
	answering, stop := context.WithCancel(m.Ctx)
	answered := m.AnswerAll(answering)
	for _, words := range []string{"/run true", "/run ./unknown-program", "tour"} {
		m.Prompt(id, words).End()
	}
	stop()
	<-answered
}

// StartPrometheus runs Prometheus with the files of deploy/prometheus, and returns its address.
func (m *measured) StartPrometheus(program string) string {
	m.T.Helper()
	dir, address := m.T.TempDir(), testkit.FreePort(m.T)
	config, err := os.ReadFile("../deploy/prometheus/prometheus.yml")
	if err != nil {
		m.T.Fatal(err)
	}
	rules, err := os.ReadFile("../deploy/prometheus/acphost.rules.yml")
	if err != nil {
		m.T.Fatal(err)
	}
	text := string(config)
	for _, change := range [][2]string{
		{"/etc/prometheus/acphost", filepath.Join(m.Keys, "prometheus")}, {"acphost.example.org:7443", m.address}, {"_interval: 15s", "_interval: 1s"},
	} {
		if !strings.Contains(text, change[0]) {
			m.T.Fatalf("deploy/prometheus/prometheus.yml does not name %s", change[0])
		}
		text = strings.ReplaceAll(text, change[0], change[1])
	}
	for name, text := range map[string]string{"prometheus.yml": text, "acphost.rules.yml": string(rules)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			m.T.Fatal(err)
		}
	}
	wire.Start(m.T, wire.Options{Name: "prometheus", Dir: dir, Command: []string{
		program, "--config.file", filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", address, "--log.level", "warn",
	}})
	if !testkit.Poll(func() bool {
		req, err := http.NewRequestWithContext(m.Ctx, http.MethodGet, "http://"+address+"/-/ready", nil)
		if err != nil {
			return false
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	}) {
		m.T.Fatal("Prometheus does not start")
	}
	return address
}
