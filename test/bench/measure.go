package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/creack/pty"
)

// instances is how often the processes are started anew within a measurement: how the system places them on its
// processors is settled at their start, and changes what is measured.
const instances = 5

// warmUp is how long a fresh process works before it counts: its first second is not what a session is like.
const warmUp = 1200 * time.Millisecond

// trial is one way to do what is measured.
type trial struct {
	name  string
	argv  []string
	front *front
}

// interleave starts each of the trials the given number of times, warms each up, and plays rounds with each in turn.
func (b *bench) interleave(trials []*trial, warm, round func(t *trial) error) error {
	for range instances {
		for _, t := range trials {
			f, err := startFront(b.dir, t.argv)
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			t.front = f
			for started := time.Now(); time.Since(started) < warmUp; {
				if err := warm(t); err != nil {
					return fmt.Errorf("%s: %w", t.name, err)
				}
			}
		}
		for range max(1, b.rounds/instances) {
			for _, t := range trials {
				if err := round(t); err != nil {
					return fmt.Errorf("%s: %w", t.name, err)
				}
			}
		}
		for _, t := range trials {
			t.front.stop()
		}
	}
	return nil
}

// forward compares the rate at which session updates pass with that of a plain copy, and of a proxy that decodes, and
// the processor time that each takes for a line, without its agent and its client.
func (b *bench) forward() error {
	fast := &trial{name: "acphost", argv: b.supervised("agent")}
	plain := &trial{name: "plain copy", argv: b.bare(append([]string{"copy"}, b.bare("agent")...)...)}
	slow := &trial{name: "decode and encode anew with coder/acp-go-sdk", argv: b.bare(append([]string{"reencode"}, b.bare("agent")...)...)}
	trials := []*trial{fast, plain, slow}
	for _, how := range []struct{ turn, title string }{
		{"flood", "a line a write, as agents write"},
		{"bulk", "200 lines a write"},
	} {
		rates, costs := map[*trial][]float64{}, map[*trial][]float64{}
		play := func(t *trial, count bool) error {
			lines, turns := 200_000, 1
			if t == slow { // its queue holds 1,024 messages: so many turns of 200
				lines, turns = 200, 25
			}
			var took, cost time.Duration
			for range turns {
				p, err := t.front.flood(fmt.Sprintf("%s %d", how.turn, lines))
				if err != nil {
					return err
				}
				took, cost = took+p.took, cost+p.cost
			}
			if count {
				rates[t] = append(rates[t], float64(lines*turns)/took.Seconds())
				costs[t] = append(costs[t], float64(cost.Nanoseconds())/float64(lines*turns))
			}
			return nil
		}
		if err := b.interleave(trials,
			func(t *trial) error { return play(t, false) }, func(t *trial) error { return play(t, true) }); err != nil {
			return err
		}
		fmt.Printf("\n| forwarding 300-byte updates, %s | lines/s | acphost is | processor time a line | acphost takes |\n|---|---|---|---|---|\n", how.title)
		rate, cost := medianFloat(rates[fast]), medianFloat(costs[fast])
		for _, t := range trials {
			theirs, spent := medianFloat(rates[t]), medianFloat(costs[t])
			fmt.Printf("| %s | %.0f | %.2f× | %.0f ns | %.2f× |\n", t.name, theirs, rate/theirs, spent, cost/spent)
		}
	}
	return nil
}

// read compares a routed read with one by a client that opens the file itself.
func (b *bench) read() error {
	routed := &trial{name: "acphost", argv: b.supervised("agent")}
	own := &trial{name: "coder/acp-go-sdk", argv: b.bare(append([]string{"reencode"}, b.bare("agent")...)...)}
	fmt.Printf("\n| fs/read_text_file, round trip | acphost + fsd | coder/acp-go-sdk in process | ratio |\n|---|---|---|---|\n")
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		path := filepath.Join(b.dir, fmt.Sprintf("file-%d", size))
		line := "the quick brown fox jumps over the lazy dog, and says \"nothing\"\n"
		if err := os.WriteFile(path, []byte(strings.Repeat(line, size/len(line)+1)[:size]), 0o600); err != nil {
			return err
		}
		n := 200
		if size == 1<<20 {
			n = 20
		}
		times := map[*trial][]time.Duration{}
		if err := b.interleave([]*trial{routed, own}, func(t *trial) error {
			_, err := t.front.prompt(fmt.Sprintf("read 1 %s", path))
			return err
		}, func(t *trial) error {
			d, err := t.front.prompt(fmt.Sprintf("read %d %s", n, path))
			times[t] = append(times[t], d...)
			return err
		}); err != nil {
			return err
		}
		ours, theirs := median(times[routed]), median(times[own])
		fmt.Printf("| %d KiB | %v | %v | %.2f× |\n", size>>10, ours, theirs, float64(ours)/float64(theirs))
	}
	return nil
}

// start measures how long it takes from the start of acphost until initialize is answered, which waits for all three
// handlers, and until the first routed answer.
func (b *bench) start() error {
	path := filepath.Join(b.dir, "first")
	if err := os.WriteFile(path, []byte("first\n"), 0o600); err != nil {
		return err
	}
	var ready, first, bare []time.Duration
	for range b.rounds {
		started := time.Now()
		f, err := launchFront(b.dir, b.supervised("agent"))
		if err != nil {
			return err
		}
		if err := f.open(); err != nil {
			return err
		}
		ready = append(ready, time.Since(started))
		if _, err := f.prompt("read 1 " + path); err != nil {
			return err
		}
		first = append(first, time.Since(started))
		f.stop()

		started = time.Now()
		if f, err = startFront(b.dir, b.bare("agent")); err != nil {
			return err
		}
		bare = append(bare, time.Since(started))
		f.stop()
	}
	fmt.Printf("\n| start-up | median |\n|---|---|\n")
	fmt.Printf("| acphost to initialize and session/new answered (all handlers ready) | %v |\n", median(ready).Round(time.Millisecond/10))
	fmt.Printf("| acphost to the first routed answer | %v |\n", median(first).Round(time.Millisecond/10))
	fmt.Printf("| the agent alone to initialize and session/new answered | %v |\n", median(bare).Round(time.Millisecond/10))
	return nil
}

// memory reads what each process holds at rest, and what all but the agent hold together.
func (b *bench) memory() error {
	f, err := startFront(b.dir, b.supervised("agent"))
	if err != nil {
		return err
	}
	defer f.stop()
	path := filepath.Join(b.dir, "once")
	if err := os.WriteFile(path, []byte("once\n"), 0o600); err != nil {
		return err
	}
	if _, err := f.prompt("read 1 " + path); err != nil {
		return err
	}
	fmt.Printf("\n| memory at rest | processes | resident, kB | PSS, kB | private, kB |\n|---|---|---|---|---|\n")
	held := b.usages(f.cmd.Process.Pid)
	row := func(name string, u usage) {
		fmt.Printf("| %s | %d | %d | %d | %d |\n", name, u.processes, u.resident, u.pss, u.private)
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		row(name, held[name])
	}
	row("all but the agent", ours(held))
	return nil
}

// terminal compares a command in a terminal of termd's with the same on a bare pseudo-terminal that is only read.
func (b *bench) terminal() error {
	path := filepath.Join(b.dir, "text")
	line := "the quick brown fox jumps over the lazy dog, and over 0123456789 others too\n"
	if err := os.WriteFile(path, []byte(strings.Repeat(line, 32<<20/len(line))), 0o600); err != nil {
		return err
	}
	f, err := startFront(b.dir, b.supervised("agent"))
	if err != nil {
		return err
	}
	defer f.stop()
	var ours, bare []time.Duration
	for range b.rounds {
		times, err := f.prompt("run 1 cat " + path)
		if err != nil {
			return err
		}
		ours = append(ours, times...)
		d, err := barePty(path)
		if err != nil {
			return err
		}
		bare = append(bare, d)
	}
	fmt.Printf("\n| cat of 32 MiB in a terminal | median | rate of acphost |\n|---|---|---|\n")
	fmt.Printf("| acphost + termd, create to exit | %v | |\n", median(ours).Round(time.Millisecond))
	fmt.Printf("| bare pseudo-terminal reader | %v | %.2f× |\n", median(bare).Round(time.Millisecond), float64(median(bare))/float64(median(ours)))
	return nil
}

func barePty(path string) (time.Duration, error) {
	started := time.Now()
	cmd := exec.Command("cat", path)
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 120, Rows: 30})
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 256<<10)
	for {
		if _, err := master.Read(buf); err != nil {
			break // EIO: the other side is closed
		}
	}
	_ = master.Close()
	err = cmd.Wait()
	return time.Since(started), err
}
