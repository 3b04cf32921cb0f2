package main

import (
	"bufio"
	"fmt"

	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/creack/pty"
)

// forward compares the rate at which session updates pass with that of a plain copy, and of a proxy that decodes.
func (b *bench) forward() error {
	const lines = 200_000
	fast, err := startFront(b.dir, b.supervised("agent"))
	if err != nil {
		return err
	}
	defer fast.stop()
	plain, err := startFront(b.dir, b.bare(append([]string{"copy"}, b.bare("agent")...)...))
	if err != nil {
		return err
	}
	defer plain.stop()
	slow, err := startFront(b.dir, b.bare(append([]string{"reencode"}, b.bare("agent")...)...))
	if err != nil {
		return err
	}
	defer slow.stop()
	for _, how := range []struct{ turn, title string }{
		{"flood", "a line a write, as agents write"},
		{"bulk", "200 lines a write"},
	} {
		rate := func(f *front, n, turns int) (float64, error) {
			var took time.Duration
			for range turns {
				d, _, err := f.flood(fmt.Sprintf("%s %d", how.turn, n))
				if err != nil {
					return 0, err
				}
				took += d
			}
			return float64(n*turns) / took.Seconds(), nil
		}
		var ours, copies, reencoded []float64
		for range b.rounds {
			r, err := rate(plain, lines, 1)
			if err != nil {
				return err
			}
			copies = append(copies, r)
			if r, err = rate(fast, lines, 1); err != nil {
				return err
			}
			ours = append(ours, r)
			// Its queue holds 1,024 messages: so many turns of 200.
			if r, err = rate(slow, 200, 25); err != nil {
				return err
			}
			reencoded = append(reencoded, r)
		}
		fmt.Printf("\n| forwarding 300-byte updates, %s | lines/s | acphost is |\n|---|---|---|\n", how.title)
		o := medianFloat(ours)
		fmt.Printf("| acphost | %.0f | |\n", o)
		fmt.Printf("| plain copy | %.0f | %.2f× |\n", medianFloat(copies), o/medianFloat(copies))
		fmt.Printf("| decode and encode anew with coder/acp-go-sdk | %.0f | %.0f× |\n", medianFloat(reencoded), o/medianFloat(reencoded))
	}
	return nil
}

// warmUp is how long reads are made before they count.
const warmUp = 1500 * time.Millisecond

// read compares a routed read with one by a client that opens the file itself.
func (b *bench) read() error {
	routed, err := startFront(b.dir, b.supervised("agent"))
	if err != nil {
		return err
	}
	defer routed.stop()
	own, err := startFront(b.dir, b.bare(append([]string{"reencode"}, b.bare("agent")...)...))
	if err != nil {
		return err
	}
	defer own.stop()
	fmt.Printf("\n| fs/read_text_file, round trip | acphost + fsd | coder/acp-go-sdk in process | ratio |\n|---|---|---|---|\n")
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		path := filepath.Join(b.dir, fmt.Sprintf("file-%d", size))
		line := "the quick brown fox jumps over the lazy dog, and says \"nothing\"\n"
		if err := os.WriteFile(path, []byte(strings.Repeat(line, size/len(line)+1)[:size]), 0o600); err != nil {
			return err
		}
		n := 100
		if size == 1<<20 {
			n = 20
		}
		// The first seconds of a session are not what it is like: caches, and acphost's choice of processors.
		for started := time.Now(); time.Since(started) < warmUp; {
			for _, f := range []*front{routed, own} {
				if _, err := f.prompt(fmt.Sprintf("read 1 %s", path)); err != nil {
					return err
				}
			}
		}
		var ours, theirs []time.Duration
		for range b.rounds {
			for f, into := range map[*front]*[]time.Duration{routed: &ours, own: &theirs} {
				times, err := f.prompt(fmt.Sprintf("read %d %s", n, path))
				if err != nil {
					return err
				}
				*into = append(*into, times...)
			}
		}
		fmt.Printf("| %d KiB | %v | %v | %.2f× |\n", size>>10, median(ours), median(theirs),
			float64(median(ours))/float64(median(theirs)))
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

// memory reads what each process holds at rest.
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
	fmt.Printf("\n| memory at rest | resident | private |\n|---|---|---|\n")
	pids := append([]int{f.cmd.Process.Pid}, descendants(f.cmd.Process.Pid)...)
	for _, pid := range pids {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		name := strings.Split(string(cmdline), "\x00")
		what := filepath.Base(name[0])
		if len(name) > 1 {
			what += " " + name[1]
		}
		fmt.Printf("| %s | %s | %s |\n", what, field(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:"),
			field(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Private_Dirty:"))
	}
	return nil
}

func field(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return "?"
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), name); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "?"
}

func descendants(pid int) []int {
	var out []int
	list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		more, _ := os.ReadFile(t)
		list = append(append(list, ' '), more...)
	}
	seen := map[int]bool{}
	for _, s := range strings.Fields(string(list)) {
		if child, err := strconv.Atoi(s); err == nil && !seen[child] {
			seen[child] = true
			out = append(append(out, child), descendants(child)...)
		}
	}
	return out
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
