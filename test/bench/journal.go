package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// journal compares the rate at which session updates pass with and without the journal, and counts what it left out.
func (b *bench) journal() error {
	trials := map[string]*trial{}
	state := filepath.Join(b.dir, "journal")
	for name, config := range map[string]string{
		"off":           "journal: {disabled: true}\n",
		"metadata only": fmt.Sprintf("journal: {content: false, max_session_bytes: 1099511627776, dir: %s}\n", filepath.Join(state, "meta")),
		"on":            fmt.Sprintf("journal: {max_session_bytes: 1099511627776, dir: %s}\n", filepath.Join(state, "on")),
	} {
		file := filepath.Join(b.dir, "journal-"+name[:2]+".yaml")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			return err
		}
		trials[name] = &trial{name: name, argv: []string{b.acphost, "run", "--no-admin", "--config", file, "--", b.self, "role", "agent"}}
	}
	off, meta, on := trials["off"], trials["metadata only"], trials["on"]
	for _, how := range []struct{ turn, title string }{
		{"flood", "a line a write, as agents write"},
		{"bulk", "200 lines a write"},
	} {
		rates, costs := map[*trial][]float64{}, map[*trial][]float64{}
		var written, lacking uint64
		play := func(t *trial, lines int, count bool) error {
			p, err := t.front.flood(fmt.Sprintf("%s %d", how.turn, lines))
			if err == nil && count {
				rates[t] = append(rates[t], float64(lines)/p.took.Seconds())
				costs[t] = append(costs[t], float64(p.cost.Nanoseconds())/float64(lines))
			}
			if t == on { // the disk is not what is measured: no file is kept longer than its round
				w, l, err := journaled(filepath.Join(state, "on"))
				if err != nil {
					return err
				}
				written, lacking = written+w, lacking+l
			}
			return err
		}
		if err := b.interleave([]*trial{off, meta, on},
			func(t *trial) error { return play(t, 100_000, false) }, func(t *trial) error { return play(t, 200_000, true) }); err != nil {
			return err
		}
		base := medianFloat(rates[off])
		fmt.Printf("\n| forwarding 300-byte updates, journal, %s | lines/s | of off | acphost's processor time a line |\n|---|---|---|---|\n", how.title)
		for _, t := range []*trial{off, meta, on} {
			fmt.Printf("| %s | %.0f | %.2f× | %.0f ns |\n", t.name, medianFloat(rates[t]), medianFloat(rates[t])/base, medianFloat(costs[t]))
		}
		fmt.Printf("\n%d lines kept, %d gaps\n", written, lacking)
		if err := os.RemoveAll(state); err != nil {
			return err
		}
	}
	return nil
}

// journaled counts the lines and the gaps in a folder's journals, and empties the files.
func journaled(dir string) (written, gaps uint64, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "s-*.ndjson"))
	if err != nil {
		return 0, 0, err
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return 0, 0, err
		}
		written += uint64(bytes.Count(data, []byte(`"session/update","frame"`)))
		gaps += uint64(bytes.Count(data, []byte(`,"dropped":`)))
		if err := os.Truncate(f, 0); err != nil {
			return 0, 0, err
		}
	}
	return written, gaps, nil
}
