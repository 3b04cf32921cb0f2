package host

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/regular"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/telemetry"
)

// Limits of the files of a collector's settings.
const (
	maxAuthority = 1 << 20
	maxHeader    = 64 << 10
)

// openTelemetry starts telemetry, if configured. An unreachable collector is not an error; an unreadable file of its
// settings is.
func (h *host) openTelemetry() error {
	cfg := h.config.GetTelemetry()
	if !cfg.GetPrometheus() && cfg.GetOtlp() == nil {
		return nil
	}
	o := telemetry.Options{Prometheus: cfg.GetPrometheus(), Source: h.measured, Version: h.opts.Version, Instance: h.instance[:16], Logger: h.log}
	if cfg.GetOtlp() != nil {
		var err error
		if o.OTLP, err = collectorOf(cfg.GetOtlp()); err != nil {
			return err
		}
	}
	if o.Prometheus && h.config.GetAdmin().GetListen() == "" {
		h.log.Warn("nobody can read the metrics: telemetry.prometheus serves them on admin.listen, which is not set")
	}
	var err error
	if h.telemetry, err = telemetry.New(o); err != nil {
		return fmt.Errorf("metrics and traces (telemetry): %w", err)
	}
	return nil
}

// collectorOf reads the files that a collector's settings name.
func collectorOf(o *configv1.OTLP) (*telemetry.Collector, error) {
	c := &telemetry.Collector{
		Endpoint: o.GetEndpoint(), Insecure: o.GetInsecure(), Headers: map[string]string{},
		Interval: time.Duration(o.GetIntervalSeconds()) * time.Second, NoMetrics: o.GetMetricsDisabled(),
	}
	if o.GetTraces() != nil {
		c.Traces = &telemetry.Traces{Ratio: 1}
		if o.Traces.SampleRatio != nil {
			c.Traces.Ratio = o.GetTraces().GetSampleRatio()
		}
	}
	if o.GetCa() != "" {
		var err error
		if c.CA, err = regular.Read(o.GetCa(), maxAuthority); err != nil {
			return nil, fmt.Errorf("the collector's authority (telemetry.otlp.ca): %w", err)
		}
	}
	for name, v := range o.GetHeaders() {
		c.Headers[name] = v.GetValue()
		if v.GetFile() == "" {
			continue
		}
		text, err := regular.Read(v.GetFile(), maxHeader)
		if err != nil {
			return nil, fmt.Errorf("the header %s (telemetry.otlp.headers): %w", name, err)
		}
		value := strings.TrimRight(string(text), " \t\r\n")
		if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, errors.New("the header " + name + " (telemetry.otlp.headers): " + v.GetFile() + " must hold one line of printable ASCII")
		}
		c.Headers[name] = value
	}
	return c, nil
}

// measured implements telemetry.Source. It calls no agent and no handler.
func (h *host) measured() telemetry.State {
	if !h.measurable.Load() {
		return telemetry.State{Start: h.started}
	}
	s := telemetry.State{
		Start: h.started, Link: h.agents.counters(), Gate: h.gate.Counters(),
		Goroutines: runtime.NumGoroutine(), HeapBytes: heapBytes(),
	}
	s.QueuedBytes = h.hub.Queued()
	s.Certificates = map[string]telemetry.Certificate{}
	for _, cert := range h.opts.Config.Certificates() {
		if v, err := certs.ValidityOf(cert.File); err == nil { // "acphost doctor" reports a file that cannot be read
			s.Certificates[cert.Setting] = telemetry.Certificate{Expires: v.Until, RenewFrom: v.RenewFrom()}
		}
	}
	for _, la := range h.agents.list() {
		s.Agents++
		s.Sessions += len(la.table.Open())
	}
	open := h.approvals.ListApprovals("")
	s.Questions = len(open)
	if len(open) > 0 {
		s.Oldest = max(0, time.Since(open[0].GetTime().AsTime()))
	}
	if h.opts.Mode != ModeObserve {
		for _, name := range h.handlers.names() {
			s.Handlers = append(s.Handlers, h.handlers.byName[name].Status())
		}
	}
	return s
}
