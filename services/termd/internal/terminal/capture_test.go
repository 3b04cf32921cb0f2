package terminal

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// BenchmarkCapture alternates a terminal and a reader that only discards the output of a pseudo-terminal. It reports
// the medians of both rates and their ratio, 1 being the speed of the kernel.
//
//	go test -run '^$' -bench Capture -benchtime 15x ./internal/terminal
func BenchmarkCapture(b *testing.B) {
	for _, bb := range []struct {
		name, unit string
		size       int
	}{
		{"text", strings.Repeat("x", 79) + "\n", 32 << 20},
		{"yes", "y\n", 2 << 20},
		{"colours", "\x1b[32mok\x1b[0m  \x1b[1mexample.com/package\x1b[0m 0.123s\n", 16 << 20},
		{"utf8", strings.Repeat("世界", 13) + "\n", 16 << 20},
	} {
		b.Run(bb.name, func(b *testing.B) {
			file := b.TempDir() + "/data"
			must(b, os.WriteFile(file, bytes.Repeat([]byte(bb.unit), bb.size/len(bb.unit)), 0o600))
			s := bench(b, Options{})
			bare(b, file) // the file is in memory from here on
			var theirs, isOwnChild []time.Duration
			for b.Loop() {
				theirs = append(theirs, bare(b, file))
				isOwnChild = append(isOwnChild, captured(b, s, file))
			}
			rate := func(times []time.Duration) float64 {
				slices.Sort(times)
				return float64(bb.size) / times[len(times)/2].Seconds() / 1e6
			}
			b.ReportMetric(rate(theirs), "bare-MB/s")
			b.ReportMetric(rate(isOwnChild), "termd-MB/s")
			b.ReportMetric(rate(isOwnChild)/rate(theirs), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// bare measures how long it takes to read the output of cat until the terminal is closed.
func bare(b *testing.B, file string) time.Duration {
	begin := time.Now()
	cmd := exec.Command("cat", file)
	f, err := pty.Start(cmd)
	must(b, err)
	piece := make([]byte, 16<<10)
	for {
		if _, err := f.Read(piece); err != nil {
			break
		}
	}
	must(b, cmd.Wait())
	took := time.Since(begin)
	must(b, f.Close())
	return took
}

func captured(b *testing.B, s *Terminals, file string) time.Duration {
	plan := line(b, "")
	plan.Program, plan.Args = "/bin/cat", []string{"cat", file}
	begin := time.Now()
	t := create(b, s, plan)
	status, err := t.Wait(soon(b))
	must(b, err)
	took := time.Since(begin)
	if status.Code != 0 {
		b.Fatal(status)
	}
	must(b, s.Release(scopeA, t.ID()))
	<-t.end().done
	return took
}
