package telemetry

import (
	"math"
	"net/http"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/protobuf/proto"
)

// Path is the path of the metrics.
const Path = "/metrics"

// Handler returns a handler that serves the metrics in Prometheus' text format; nil if Prometheus is disabled.
func (t *Telemetry) Handler() http.Handler {
	if t == nil || t.read == nil {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != Path {
			http.Error(w, "only "+Path+" is here", http.StatusNotFound)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "metrics can only be read", http.StatusMethodNotAllowed)
			return
		}
		var all metricdata.ResourceMetrics
		if err := t.read.Collect(r.Context(), &all); err != nil {
			http.Error(w, "the metrics cannot be read: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		format := expfmt.NewFormat(expfmt.TypeTextPlain)
		w.Header().Set("Content-Type", string(format))
		encoder := expfmt.NewEncoder(w, format)
		for _, family := range families(&all) {
			if err := encoder.Encode(family); err != nil {
				return // the reader has disconnected
			}
		}
	})
}

// families converts metrics to Prometheus' form, sorted by name.
func families(all *metricdata.ResourceMetrics) []*dto.MetricFamily {
	var out []*dto.MetricFamily
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if f := family(m); len(f.GetMetric()) > 0 {
				out = append(out, f)
			}
		}
	}
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}

func family(m metricdata.Metrics) *dto.MetricFamily {
	f := &dto.MetricFamily{Help: proto.String(m.Description)}
	suffix := map[string]string{"s": "_seconds", "By": "_bytes"}[m.Unit]
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		f.Type, suffix = dto.MetricType_COUNTER.Enum(), suffix+"_total"
		f.Metric = counters(data.DataPoints)
	case metricdata.Sum[float64]:
		f.Type, suffix = dto.MetricType_COUNTER.Enum(), suffix+"_total"
		f.Metric = counters(data.DataPoints)
	case metricdata.Gauge[float64]:
		f.Type = dto.MetricType_GAUGE.Enum()
		for _, p := range data.DataPoints {
			f.Metric = append(f.Metric, &dto.Metric{Label: pairs(p.Attributes), Gauge: &dto.Gauge{Value: &p.Value}})
		}
	case metricdata.Histogram[float64]:
		f.Type = dto.MetricType_HISTOGRAM.Enum()
		for _, p := range data.DataPoints {
			h := &dto.Histogram{SampleCount: &p.Count, SampleSum: &p.Sum}
			below := uint64(0)
			for i, bound := range append(slices.Clone(p.Bounds), math.Inf(1)) {
				below += p.BucketCounts[i]
				h.Bucket = append(h.Bucket, &dto.Bucket{CumulativeCount: proto.Uint64(below), UpperBound: proto.Float64(bound)})
			}
			f.Metric = append(f.Metric, &dto.Metric{Label: pairs(p.Attributes), Histogram: h})
		}
	}
	f.Name = proto.String(strings.ReplaceAll(m.Name, ".", "_") + suffix)
	return f
}

func counters[N int64 | float64](points []metricdata.DataPoint[N]) []*dto.Metric {
	var out []*dto.Metric
	for _, p := range points {
		out = append(out, &dto.Metric{Label: pairs(p.Attributes), Counter: &dto.Counter{Value: proto.Float64(float64(p.Value))}})
	}
	return out
}

// pairs converts attributes to labels, sorted by name.
func pairs(set attribute.Set) []*dto.LabelPair {
	var out []*dto.LabelPair
	for _, kv := range set.ToSlice() {
		out = append(out, &dto.LabelPair{Name: proto.String(strings.ReplaceAll(string(kv.Key), ".", "_")), Value: proto.String(kv.Value.String())})
	}
	return out
}
