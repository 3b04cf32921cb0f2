// Command bench measures the cost of acphost against the simplest replacement of it, interleaved in one run, and prints
// medians and ratios as a table.
//
//	go run ./test/bench -bin bin
//
// It plays its own agents and stand-ins: see roles.go. It needs the binaries that "make build" makes.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "role" {
		os.Exit(role(os.Args[2], os.Args[3:]))
	}
	bin := flag.String("bin", "bin", "folder of the binaries")
	rounds := flag.Int("rounds", 15, "interleaved rounds of each measurement")
	only := flag.String("only", "", "comma-separated: forward, read, floor, gate, decide, journal, events, files, telemetry, start, prompt, memory, terminal, sandbox, scale, gateway; default all")
	jobs := flag.String("jobs", "", "of the sandbox: only the jobs whose name contains this")
	before := flag.String("before", "", "of the sandbox: a folder of binaries to compare with")
	var size scaling
	size.flags(flag.CommandLine)
	flag.Parse()
	dir, err := filepath.Abs(*bin)
	if err != nil {
		fail(err)
	}
	b := &bench{acphost: filepath.Join(dir, "acphost"), rounds: *rounds, size: size, jobs: *jobs, before: *before}
	if err := b.run(strings.Split(*only, ",")); err != nil {
		fail(err)
	}
}

// run measures what is named, or everything.
func (b *bench) run(only []string) error {
	var err error
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "acphost-bench-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.dir) }()
	b.unrecorded = filepath.Join(b.dir, "unrecorded.yaml")
	if err := os.WriteFile(b.unrecorded, []byte("journal: {disabled: true}\n"), 0o600); err != nil {
		return err
	}
	parts := []struct {
		name string
		run  func() error
	}{
		{"forward", b.forward}, {"read", b.read}, {"floor", b.floor}, {"gate", b.gate}, {"decide", b.decide}, {"journal", b.journal}, {"events", b.events}, {"files", b.files}, {"telemetry", b.telemetry}, {"start", b.start}, {"prompt", b.prompt}, {"memory", b.memory}, {"terminal", b.terminal}, {"sandbox", b.sandbox}, {"scale", b.scale}, {"gateway", b.gateway},
	}
	for _, p := range parts {
		if only[0] != "" && !slices.Contains(only, p.name) {
			continue
		}
		if err := p.run(); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// bench is one run.
type bench struct {
	self, acphost, dir string
	unrecorded         string // a configuration without a journal: what it costs is measured apart
	rounds             int
	size               scaling
	jobs, before       string
}

// supervised is the command line of an agent role behind acphost.
func (b *bench) supervised(role ...string) []string {
	return append([]string{b.acphost, "run", "--no-admin", "--config", b.unrecorded, "--", b.self, "role"}, role...)
}

// bare is the command line of a role of this program.
func (b *bench) bare(role ...string) []string { return append([]string{b.self, "role"}, role...) }

func median(d []time.Duration) time.Duration {
	s := slices.Clone(d)
	slices.Sort(s)
	return s[len(s)/2]
}

func medianFloat(f []float64) float64 {
	s := slices.Clone(f)
	slices.Sort(s)
	return s[len(s)/2]
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}
