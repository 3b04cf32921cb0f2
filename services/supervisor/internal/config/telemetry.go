package config

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/yamlproto"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
)

const (
	defaultTelemetryInterval = 60 // seconds
	maxTelemetryInterval     = 3600
)

// expandHeaders expands plain text as the value of a header.
func expandHeaders(doc *yamlproto.Document) { doc.ExpandMap("telemetry.otlp.headers", "value") }

// telemetry checks the destination of metrics.
func (v *checker) telemetry(t *configv1.Telemetry) {
	o, at := t.GetOtlp(), path("telemetry.otlp")
	if o == nil {
		return
	}
	host, port, err := net.SplitHostPort(o.GetEndpoint())
	n, numErr := strconv.ParseUint(port, 10, 16)
	if err != nil || numErr != nil || n == 0 || host == "" || strings.ContainsAny(host, "/@?#\x00") {
		v.problem(at.to("endpoint"), `expected HOST:PORT, as in "collector.example.org:4317", got %q`, o.GetEndpoint())
	}
	if o.GetInsecure() {
		v.misplaced(at.to("ca"), o.GetCa() != "", "TLS only, and insecure turns it off")
	}
	for _, name := range slices.Sorted(maps.Keys(o.GetHeaders())) {
		value := o.GetHeaders()[name]
		switch {
		case name == "" || strings.ContainsFunc(name, notInHeaderName) || strings.HasPrefix(name, "grpc-") || strings.HasSuffix(name, "-bin"):
			v.problem(at.to("headers", name), `expected a header's name: small letters, digits, "-", "_" and ".", neither "grpc-…" nor "…-bin"; got %q`, name)
		case strings.ContainsFunc(value.GetValue(), notInHeader):
			v.problem(at.to("headers", name), "expected printable ASCII")
		case value.GetValue() != "" && value.GetFile() != "":
			v.problem(at.to("headers", name), "expected either value or file, got both")
		}
	}
	v.bound(at.to("interval_seconds"), uint64(o.GetIntervalSeconds()), 1, maxTelemetryInterval)
	if o.GetMetricsDisabled() && o.GetTraces() == nil {
		v.problem(at.to("metrics_disabled"), "without metrics and traces, nothing is sent: set traces, or leave otlp out")
	}
	if o.GetMetricsDisabled() {
		v.misplaced(at.to("interval_seconds"), o.GetIntervalSeconds() != 0, "metrics only, and metrics_disabled turns them off")
	}
	if r := o.GetTraces().GetSampleRatio(); !(r >= 0 && r <= 1) { // false for NaN
		v.problem(at.to("traces", "sample_ratio"), "expected 0 to 1, got %v", r)
	}
}

func notInHeader(r rune) bool { return r < ' ' || r > '~' }

func notInHeaderName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
}

// effectiveTelemetry fills in the defaults.
func effectiveTelemetry(o *configv1.OTLP) {
	if o != nil && !o.GetMetricsDisabled() {
		orDefault(&o.IntervalSeconds, defaultTelemetryInterval)
	}
	if t := o.GetTraces(); t != nil {
		t.SampleRatio = cmp.Or(t.SampleRatio, proto.Float64(1))
	}
}

// resolveTelemetry makes the paths of files absolute.
func (v *checker) resolveTelemetry(o *configv1.OTLP) {
	if o.GetCa() != "" {
		o.Ca = v.absolute(o.GetCa())
	}
}

// checkTelemetryFiles checks that the files exist.
func (v *checker) checkTelemetryFiles(o *configv1.OTLP) {
	if o.GetCa() != "" {
		v.regular(path("telemetry.otlp.ca"), o.GetCa(), 0)
	}
	v.envFiles(path("telemetry.otlp.headers"), o.GetHeaders())
}

// redactHeaders replaces all values, because any header may authenticate its sender.
func redactHeaders(headers map[string]*configv1.EnvValue) {
	for _, value := range headers {
		if value.GetValue() != "" {
			value.Value = secret.Redacted
		}
	}
}
