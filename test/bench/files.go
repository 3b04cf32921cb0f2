package main

import (
	"fmt"
	"io"
	"net"
	"time"
)

// manyFiles is how many files an agent works with where there are many: as many as are kept of a session.
const manyFiles = 10_000

// idleFor is how long the processor time of supervisors at rest is counted.
const idleFor = 30 * time.Second

// files compares forwarding without a reader of the feed of file activity to forwarding with one: with no files, with
// many that are in the context, and with many that cool down. Then it measures the same supervisors at rest.
func (b *bench) files() error {
	off := &trial{name: "not observed", argv: b.supervised("agent")}
	trials := []*trial{off}
	before := map[*trial][]string{} // prompts before each round
	feeds := map[*trial]string{}    // the addresses of those that are read
	many := fmt.Sprintf("files %d", manyFiles)
	for _, how := range []struct {
		name    string
		read    bool
		prompts []string
	}{
		{"no reader, 10,000 files in the context", false, []string{many}},
		{"a reader, no files", true, nil},
		{"a reader, 10,000 files in the context", true, []string{many}},
		{"a reader, 10,000 files that cool down", true, []string{many, "cool 1"}},
	} {
		address, err := freeAddress()
		if err != nil {
			return err
		}
		t := &trial{name: how.name, argv: []string{
			b.acphost, "run", "--no-admin", "--config", b.unrecorded, "--activity", address, "--", b.self, "role", "agent",
		}}
		if how.read {
			feeds[t] = address
		}
		before[t] = how.prompts
		trials = append(trials, t)
	}
	reading := map[*trial]*front{}
	prepare := func(t *trial) error {
		if address := feeds[t]; address != "" && reading[t] != t.front {
			if err := readFeed(address); err != nil {
				return err
			}
			reading[t] = t.front
		}
		for _, text := range before[t] {
			if _, err := t.front.prompt(text); err != nil {
				return err
			}
		}
		return nil
	}
	const lines = 200_000
	rates, costs := map[*trial][]float64{}, map[*trial][]float64{}
	round := func(t *trial) error {
		if err := prepare(t); err != nil {
			return err
		}
		p, err := t.front.flood(fmt.Sprintf("flood %d", lines))
		rates[t] = append(rates[t], lines/p.took.Seconds())
		costs[t] = append(costs[t], float64(p.cost.Nanoseconds())/lines)
		return err
	}
	warm := func(t *trial) error {
		if err := prepare(t); err != nil {
			return err
		}
		_, err := t.front.flood(fmt.Sprintf("flood %d", lines))
		return err
	}
	if err := b.interleave(trials, warm, round); err != nil {
		return err
	}
	idle := map[*trial]time.Duration{}
	for _, t := range trials {
		f, err := startFront(b.dir, t.argv)
		if err != nil {
			return err
		}
		defer f.stop()
		t.front = f
		if err := prepare(t); err != nil {
			return err
		}
	}
	time.Sleep(time.Minute) // until what cools down is cold
	for _, t := range trials {
		idle[t] = -processorTime(t.front.cmd.Process.Pid)
	}
	time.Sleep(idleFor)
	for _, t := range trials {
		idle[t] += processorTime(t.front.cmd.Process.Pid)
	}
	fmt.Printf("\n| forwarding 300-byte updates, a line a write | lines/s | relative | processor time a line | relative | processor time in %v at rest |\n|---|---|---|---|---|---|\n", idleFor)
	rate, cost := medianFloat(rates[off]), medianFloat(costs[off])
	for _, t := range trials {
		fmt.Printf("| %s | %.0f | %.2f× | %.0f ns | %.2f× | %v |\n", t.name, medianFloat(rates[t]), medianFloat(rates[t])/rate,
			medianFloat(costs[t]), medianFloat(costs[t])/cost, idle[t].Round(time.Millisecond/10))
	}
	return nil
}

// freeAddress is an address of the loopback without a listener.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// readFeed reads a feed of file activity until it ends.
func readFeed(address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	go func() {
		defer func() { _ = conn.Close() }()
		_, _ = io.Copy(io.Discard, conn)
	}()
	return nil
}
