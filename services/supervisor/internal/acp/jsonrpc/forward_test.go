package jsonrpc

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"testing"
	"time"
)

// forward is the path of an unchanged message: read it, scan it, and write all messages that arrived together at once.
func forward(from io.Reader, to io.Writer) error {
	r, w := NewReader(from, 64<<20), NewWriter(to, 1<<20)
	var s Scanner
	var m Message
	for {
		var run []byte
		for {
			line, err := r.Next()
			if errors.Is(err, io.EOF) {
				return w.Close()
			}
			if err != nil {
				return err
			}
			if err := s.Scan(line, &m); err != nil {
				return err
			}
			joined, ok := Span(run, line)
			if !ok {
				return errors.New("neighbouring lines do not join")
			}
			if run = joined; !r.Buffered() {
				break
			}
		}
		if err := w.Forward(run); err != nil {
			return err
		}
	}
}

// plainCopy copies the same bytes without parsing.
func plainCopy(from io.Reader, to io.Writer) error {
	// The wrappers keep io.CopyBuffer from splicing in the kernel.
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, readSize))
	return err
}

// throughPipes sends lines from a feeder through relay to a sink, over two pipes, and returns how long it took.
func throughPipes(tb testing.TB, lines []byte, total int, relay func(io.Reader, io.Writer) error) time.Duration {
	tb.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	start := time.Now()
	fed, relayed := make(chan error, 1), make(chan error, 1)
	go func() {
		var err error
		for sent := 0; sent < total && err == nil; sent += len(lines) {
			_, err = inW.Write(lines)
		}
		fed <- errors.Join(err, inW.Close())
	}()
	go func() { relayed <- errors.Join(relay(inR, outW), outW.Close()) }()
	got, buf := 0, make([]byte, readSize)
	for {
		n, err := outR.Read(buf)
		got += n
		if err != nil {
			break
		}
	}
	took := time.Since(start)
	if err := errors.Join(<-fed, <-relayed); err != nil {
		tb.Fatal(err)
	}
	if got < total {
		tb.Fatalf("%d bytes arrived, want %d", got, total)
	}
	_ = inR.Close()
	_ = outR.Close()
	return took
}

func TestForward_KeepsBytes(t *testing.T) {
	r, w := io.Pipe()
	want := bytes.Repeat(update300, 5000)
	done := make(chan error, 1)
	go func() { done <- errors.Join(forward(bytes.NewReader(want), w), w.Close()) }()
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes (%v), want %d, the same", len(got), err, len(want))
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// BenchmarkForward compares forwarding lines of 300 bytes with a plain copy between the same pipes, both in turns. What
// counts is the metric ratio: 0.7 is the aim.
func BenchmarkForward(b *testing.B) {
	const total = 32 << 20
	lines := bytes.Repeat(update300, 200)
	b.SetBytes(total)
	var ratios []float64
	for b.Loop() {
		plain := throughPipes(b, lines, total, plainCopy)
		ours := throughPipes(b, lines, total, forward)
		ratios = append(ratios, plain.Seconds()/ours.Seconds())
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
}
