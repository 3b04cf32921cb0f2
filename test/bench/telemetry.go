package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// telemetry compares the rate at which session updates pass with and without metrics, for both outlets. The collector does not
// answer.
func (b *bench) telemetry() error {
	file := filepath.Join(b.dir, "telemetry.yaml")
	config := "journal: {disabled: true}\ntelemetry: {prometheus: true, otlp: {endpoint: \"127.0.0.1:9\", insecure: true}}\nlog: {level: error}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	off := &trial{name: "off", argv: b.supervised("agent")}
	on := &trial{name: "on", argv: []string{b.acphost, "run", "--no-admin", "--config", file, "--", b.self, "role", "agent"}}
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
		if err := b.interleave([]*trial{off, on},
			func(t *trial) error { return play(t, 100_000, false) }, func(t *trial) error { return play(t, 200_000, true) }); err != nil {
			return err
		}
		fmt.Printf("\n| forwarding 300-byte updates, metrics, %s | lines/s | of off | acphost's processor time a line |\n|---|---|---|---|\n", how.title)
		for _, t := range []*trial{off, on} {
			fmt.Printf("| %s | %.0f | %.2f× | %.0f ns |\n", t.name, medianFloat(rates[t]), medianFloat(rates[t])/medianFloat(rates[off]), medianFloat(costs[t]))
		}
	}
	return nil
}
