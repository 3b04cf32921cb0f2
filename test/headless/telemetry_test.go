package headless_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestMetrics_CountAgentActivity(t *testing.T) {
	t.Parallel()
	m := measure(t, e2e.NewPlace(t))
	m.Work()
	text := m.Scrape()
	for _, line := range []string{
		`acphost_agents 1`, `acphost_sessions 1`, `acphost_questions 0`, `acphost_sessions_opened_total{agent="demoagent"} 1`,
		`acphost_turns_total{agent="demoagent",outcome="end_turn"} 3`, `acphost_turn_duration_seconds_count{agent="demoagent"} 3`,
		`acphost_tokens_total{agent="demoagent",kind="input"} 1000`, `acphost_cost_total{agent="demoagent",currency="USD"} 0.045`,
		`acphost_handler_ready{handler="fs"} 1`, `acphost_dropped_frames_total 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("there is no line %q", line)
		}
	}
	for _, begin := range []string{
		`acphost_decisions_total{door="call",`, `acphost_decisions_total{door="request",`, `acphost_question_duration_seconds_count{`,
		`acphost_handler_call_duration_seconds_count{handler="terminal",method="terminal/create",outcome="ok"}`,
	} {
		if !strings.Contains(text, "\n"+begin) {
			t.Errorf("no line begins with %q", begin)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	m.Finish()
}

// promQuery is a query of a dashboard or an alert.
type promQuery struct{ from, text string }

// queries are all that deploy/ asks Prometheus for.
func queries(t *testing.T) (all []promQuery) {
	t.Helper()
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	data, err := os.ReadFile("../deploy/grafana/acphost.json")
	if err == nil {
		err = json.Unmarshal(data, &board)
	}
	if err != nil {
		t.Fatal(err)
	}
	replace := strings.NewReplacer("$instance", ".*", "$__rate_interval", "1m")
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			all = append(all, promQuery{"the panel " + p.Title, replace.Replace(target.Expr)})
		}
	}
	return all
}

// metricName finds the metrics that a query names.
var metricName = regexp.MustCompile(`\bacphost_[a-z_]+`)

// TestMetrics_PrometheusQueries has Prometheus, with the files of deploy/, read the metrics and run the queries of the
// dashboard and the alerts.
func TestMetrics_PrometheusQueries(t *testing.T) {
	t.Parallel()
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed (Debian: apt-get install prometheus)")
	}
	m := measure(t, e2e.NewPlace(t))
	api := "http://" + m.StartPrometheus(prometheus)
	m.Work()
	known := m.Scrape()
	ask := func(path string, into any) {
		t.Helper()
		if err := json.Unmarshal([]byte(fetch(m.Ctx, t, http.DefaultClient, api+path)), into); err != nil {
			t.Fatal(err)
		}
	}
	type answer struct {
		Data struct {
			ResultType string
			Result     []json.RawMessage
		}
	}
	if !testkit.Poll(func() bool {
		var a answer
		ask("/api/v1/query?query="+url.QueryEscape("count_over_time(acphost_turns_total[1m]) > 1"), &a)
		return len(a.Data.Result) > 0
	}) {
		t.Fatal("Prometheus does not read the metrics")
	}
	all := queries(t)
	var rules struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Query, Health, LastError string }
			}
		}
	}
	ask("/api/v1/rules", &rules)
	for _, g := range rules.Data.Groups {
		for _, r := range g.Rules {
			all = append(all, promQuery{"the alert " + r.Name, r.Query})
			if r.Health == "err" {
				t.Errorf("the alert %s: %s", r.Name, r.LastError)
			}
		}
	}
	if len(all) < 40 {
		t.Fatalf("only %d queries were found", len(all))
	}
	for _, q := range all {
		for _, name := range metricName.FindAllString(q.text, -1) {
			if !strings.Contains(known, "\n"+name+"{") && !strings.Contains(known, "\n"+name+" ") {
				t.Errorf("%s asks for %s, which acphost does not serve", q.from, name)
			}
		}
		var a answer
		ask("/api/v1/query?query="+url.QueryEscape(q.text), &a)
		if len(a.Data.Result) == 0 && strings.HasPrefix(q.from, "the panel") && q.from != "the panel Failed calls" && q.from != "the panel Rules that denied" {
			t.Errorf("%s shows nothing: %s", q.from, q.text)
		}
	}
	m.Finish()
}

// TestMetrics_Alerts checks that each alert fires under its condition, and only then.
func TestMetrics_Alerts(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian: apt-get install prometheus)")
	}
	for _, args := range [][]string{{"check", "rules", "acphost.rules.yml"}, {"test", "rules", "acphost.rules.test.yml"}, {"check", "config", "--syntax-only", "prometheus.yml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = "../deploy/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func TestMetrics_HaveExpiryOfCertificates(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	m := measure(t, p)
	deployed := filepath.Join(p.Home, "deployed", "tls")
	metric := regexp.MustCompile(`(?m)^acphost_certificate_expiry_seconds\{.*certificate="admin\.tls\.(ca|cert)".*\} (\S+)$`)
	expect := func() (leaf time.Time) {
		t.Helper()
		text := m.Scrape()
		got := map[string]string{}
		for _, found := range metric.FindAllStringSubmatch(text, -1) {
			got[found[1]] = found[2]
		}
		for name, file := range map[string]string{"cert": "server.crt", "ca": "ca.crt"} {
			block, _ := pem.Decode(e2e.Must(t, filepath.Join(deployed, file)))
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			if seconds, err := strconv.ParseFloat(got[name], 64); err != nil || int64(seconds) != cert.NotAfter.Unix() {
				t.Errorf("the expiry of admin.tls.%s is %q (%v), want %d\n%s", name, got[name], err, cert.NotAfter.Unix(), text)
			}
			if name == "cert" {
				leaf = cert.NotAfter
			}
		}
		return leaf
	}
	before := expect()
	if status, out, errs := p.Cli(t, "certs", "renew", m.Keys, "--days", "9"); status != 0 {
		t.Fatalf("acphost certs renew: %s%s", out, errs)
	}
	if err := os.RemoveAll(deployed); err != nil {
		t.Fatal(err)
	}
	p.Deploy(t, m.Keys)
	if after := expect(); !after.Before(before) {
		t.Errorf("the new certificate ends on %s, the old one on %s", after, before)
	}
	m.Finish()
}

// measured is a supervisor that serves metrics.
type measured struct {
	*e2e.Server
	address, Keys string
	http          *http.Client // as Prometheus
}

// measure runs "acphost serve" with metrics.
func measure(t *testing.T, p *e2e.Place) *measured {
	t.Helper()
	return measureWith(t, p, "telemetry: {prometheus: true}\n")
}

// measureWith is measure with settings of telemetry.
func measureWith(t *testing.T, p *e2e.Place, telemetry string) *measured {
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
	return fetch(m.Ctx, m.T, m.http, "https://"+m.address+"/metrics")
}

// fetch gets a page, which must be there.
func fetch(ctx context.Context, t testing.TB, client *http.Client, address string) string {
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
