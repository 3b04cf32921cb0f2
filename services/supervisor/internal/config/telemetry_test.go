package config_test

import "testing"

func TestTelemetry_Defaults(t *testing.T) {
	const otlp = `telemetry: {otlp: {endpoint: "collector:4317"`
	if o := load(t, otlp+"}}").Effective().GetTelemetry().GetOtlp(); o.GetIntervalSeconds() != 60 || o.GetTraces() != nil {
		t.Errorf("a collector of metrics is %v", o)
	}
	if o := load(t, otlp+", metrics_disabled: true, traces: {}}}").Effective().GetTelemetry().GetOtlp(); o.GetIntervalSeconds() != 0 || o.GetTraces().GetSampleRatio() != 1 {
		t.Errorf("a collector of traces is %v", o)
	}
	if o := load(t, otlp+", traces: {sample_ratio: 0}}}").Effective().GetTelemetry().GetOtlp(); o.GetTraces().SampleRatio == nil || o.GetTraces().GetSampleRatio() != 0 {
		t.Errorf("a zero that was set is %v", o)
	}
}
