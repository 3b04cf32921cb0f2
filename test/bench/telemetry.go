package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	collectormetricsv1 "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// telemetry compares acphost with metrics for both outlets, and with traces of everything beside them, to acphost
// without: the rate at which session updates pass, and the time that a routed read takes. The collector takes all, in
// this process. The same acphost without is measured twice: what the two differ by is chance.
func (b *bench) telemetry() error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	collector := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(collector, takesTraces{})
	collectormetricsv1.RegisterMetricsServiceServer(collector, takesMetrics{})
	go func() { _ = collector.Serve(listener) }()
	defer collector.Stop()
	with := func(name, telemetry string) (*trial, error) {
		file := filepath.Join(b.dir, "telemetry-"+name+".yaml")
		config := "journal: {disabled: true}\nlog: {level: error}\n" + telemetry
		return &trial{name: name, argv: []string{b.acphost, "run", "--no-admin", "--config", file, "--", b.self, "role", "agent"}}, os.WriteFile(file, []byte(config), 0o600)
	}
	otlp := fmt.Sprintf("telemetry: {prometheus: true, otlp: {endpoint: %q, insecure: true", listener.Addr())
	var trials []*trial
	for _, t := range [][2]string{{"off", ""}, {"metrics", otlp + "}}\n"}, {"metrics and traces", otlp + ", traces: {}}}\n"}, {"off again", ""}} {
		made, err := with(t[0], t[1])
		if err != nil {
			return err
		}
		trials = append(trials, made)
	}
	off := trials[0]
	for _, how := range []struct{ turn, title string }{
		{"flood", "a line a write, as agents write"},
		{"bulk", "200 lines a write"},
	} {
		rates, costs := map[*trial][]float64{}, map[*trial][]float64{}
		play := func(t *trial, lines int, count bool) error {
			p, err := t.front.flood(fmt.Sprintf("%s %d", how.turn, lines))
			if err == nil && count {
				rates[t] = append(rates[t], float64(lines)/p.took.Seconds())
				costs[t] = append(costs[t], float64(p.cost.Nanoseconds())/float64(lines))
			}
			return err
		}
		if err := b.interleave(trials,
			func(t *trial) error { return play(t, 100_000, false) }, func(t *trial) error { return play(t, 200_000, true) }); err != nil {
			return err
		}
		fmt.Printf("\n| forwarding 300-byte updates, %s | lines/s | of off | acphost's processor time a line |\n|---|---|---|---|\n", how.title)
		for _, t := range trials {
			fmt.Printf("| %s | %.0f | %.2f× | %.0f ns |\n", t.name, medianFloat(rates[t]), medianFloat(rates[t])/medianFloat(rates[off]), medianFloat(costs[t]))
		}
	}
	return b.telemetryReads(trials)
}

// takesTraces and takesMetrics are a collector that keeps nothing.
type (
	takesTraces struct {
		collectorv1.UnimplementedTraceServiceServer
	}
	takesMetrics struct {
		collectormetricsv1.UnimplementedMetricsServiceServer
	}
)

func (takesTraces) Export(context.Context, *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

func (takesMetrics) Export(context.Context, *collectormetricsv1.ExportMetricsServiceRequest) (*collectormetricsv1.ExportMetricsServiceResponse, error) {
	return &collectormetricsv1.ExportMetricsServiceResponse{}, nil
}

// telemetryReads measures routed reads, each of which produces metrics and spans.
func (b *bench) telemetryReads(trials []*trial) error {
	path := filepath.Join(b.dir, "telemetry-read")
	if err := os.WriteFile(path, make([]byte, 0), 0o600); err != nil {
		return err
	}
	times := map[*trial][]time.Duration{}
	if err := b.interleave(trials, func(t *trial) error {
		_, err := t.front.prompt("read 200 " + path)
		return err
	}, func(t *trial) error {
		d, err := t.front.prompt("read 500 " + path)
		times[t] = append(times[t], d...)
		return err
	}); err != nil {
		return err
	}
	fmt.Printf("\n| fs/read_text_file of an empty file | round trip | of off |\n|---|---|---|\n")
	for _, t := range trials {
		fmt.Printf("| %s | %v | %.2f× |\n", t.name, median(times[t]), float64(median(times[t]))/float64(median(times[trials[0]])))
	}
	return nil
}
