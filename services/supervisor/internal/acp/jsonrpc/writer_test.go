package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// stuck is a stream whose writes block until the test releases them.
type stuck struct {
	entered chan struct{}
	let     chan error
	got     bytes.Buffer
}

func newStuck() *stuck { return &stuck{entered: make(chan struct{}, 100), let: make(chan error)} }

func (s *stuck) Write(p []byte) (int, error) {
	s.entered <- struct{}{}
	if err := <-s.let; err != nil {
		return 0, err
	}
	return s.got.Write(p)
}

func TestWriter_SeparatesConcurrentFrames(t *testing.T) {
	for _, tt := range []struct {
		name string
		ends func(t *testing.T) (w io.WriteCloser, r io.ReadCloser)
	}{
		{"a pipe", func(t *testing.T) (io.WriteCloser, io.ReadCloser) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			return w, r
		}},
		{"a socket", func(t *testing.T) (io.WriteCloser, io.ReadCloser) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			w, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			r, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			return w, r
		}},
		{"some writer", func(*testing.T) (io.WriteCloser, io.ReadCloser) {
			r, w := io.Pipe()
			return w, r
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, in := tt.ends(t)
			w := NewWriter(out, 1<<30)
			const writers, frames = 6, 60
			var senders sync.WaitGroup
			for id := range writers {
				senders.Go(func() {
					for n := range frames {
						head := fmt.Sprintf("%d %d ", id, n)
						body := strings.Repeat(string(rune('a'+id)), 1+(n*7919)%90000)
						var err error
						switch (id + n) % 3 {
						case 0:
							err = w.Forward([]byte(head + body + "\n"))
						case 1:
							err = w.Send([]byte(head), nil, []byte(body), []byte("\n"))
						default:
							err = w.Post([]byte(head + body + "\n"))
						}
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			go func() {
				senders.Wait()
				if err := w.Close(); err != nil {
					t.Error(err)
				}
				_ = out.Close()
			}()
			all, err := io.ReadAll(in)
			if err != nil {
				t.Fatal(err)
			}
			_ = in.Close()
			next := make([]int, writers)
			count := 0
			for line := range strings.Lines(string(all)) {
				fields := strings.Fields(line)
				if len(fields) != 3 {
					t.Fatalf("%.60q is no frame", line)
				}
				id, errID := strconv.Atoi(fields[0])
				n, errN := strconv.Atoi(fields[1])
				if body := fields[2]; errID != nil || errN != nil || id >= writers {
					t.Fatalf("%.60q is no frame", line)
				} else if want := 1 + (n*7919)%90000; len(body) != want || strings.Trim(body, string(rune('a'+id))) != "" {
					t.Fatalf("frame %d of writer %d was mixed or cut", n, id)
				}
				if n != next[id] {
					t.Fatalf("writer %d: frame %d arrived where %d was due", id, n, next[id])
				}
				next[id]++
				count++
			}
			if count != writers*frames {
				t.Errorf("%d frames arrived, want %d", count, writers*frames)
			}
		})
	}
}

func TestWriter_SendsManyBuffers(t *testing.T) {
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(out, 0)
	var bufs [][]byte
	for i := range 5000 {
		bufs = append(bufs, bytes.Repeat([]byte{byte('a' + i%26)}, i%331))
	}
	want := bytes.Join(bufs, nil)
	sent := make(chan error, 1)
	go func() {
		sent <- errors.Join(w.Send(bufs...), w.Close(), out.Close())
	}()
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes (%v), want %d", len(got), err, len(want))
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if !bytes.Equal(bytes.Join(bufs, nil), want) {
		t.Error("the caller's buffers were changed")
	}
	_ = r.Close()
}

func TestWriter_WritesPostedFramesFirst(t *testing.T) {
	s := newStuck()
	w := NewWriter(s, 100)
	if err := w.Post([]byte("1\n")); err != nil {
		t.Fatal(err)
	}
	<-s.entered
	for _, f := range []string{"2\n", "3\n"} {
		if err := w.Post([]byte(f)); err != nil {
			t.Fatal(err)
		}
	}
	sent := make(chan error, 1)
	go func() { sent <- w.Forward([]byte("4\n")) }()
	go func() {
		for range s.entered {
			s.let <- nil
		}
	}()
	s.let <- nil
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	close(s.entered)
	if got := s.got.String(); got != "1\n2\n3\n4\n" {
		t.Errorf("got %q", got)
	}
}

func TestWriter_LimitsPostedFrames(t *testing.T) {
	s := newStuck()
	w := NewWriter(s, 10)
	if err := w.Post(make([]byte, 50)); err != nil {
		t.Fatalf("an empty queue refused a frame: %v", err)
	}
	<-s.entered
	if err := w.Post([]byte("x")); !errors.Is(err, ErrOverflow) {
		t.Errorf("a full queue returns %v", err)
	}
	s.let <- nil
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if s.got.Len() != 50 {
		t.Errorf("%d bytes were written", s.got.Len())
	}
}

func TestWriter_FailsAfterError(t *testing.T) {
	s := newStuck()
	w := NewWriter(s, 100)
	broken := errors.New("broken")
	if err := w.Post([]byte("1\n")); err != nil {
		t.Fatal(err)
	}
	<-s.entered
	if err := w.Post([]byte("2\n")); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- w.Forward([]byte("3\n")) }()
	s.let <- broken
	if err := <-waiting; !errors.Is(err, broken) {
		t.Errorf("a waiting Forward returns %v", err)
	}
	if err := w.Send([]byte("4"), []byte("\n")); !errors.Is(err, broken) {
		t.Errorf("Send returns %v", err)
	}
	if err := w.Post([]byte("5\n")); !errors.Is(err, broken) {
		t.Errorf("Post returns %v", err)
	}
	if w.TrySend([]byte("6\n")) {
		t.Error("TrySend returns that it sent")
	}
	for range 2 {
		if err := w.Close(); !errors.Is(err, broken) {
			t.Errorf("Close returns %v", err)
		}
	}
	if s.got.Len() != 0 {
		t.Errorf("%q was written", s.got.String())
	}
}

func TestTrySend_YieldsToOtherWriters(t *testing.T) {
	s := newStuck()
	w := NewWriter(s, 100)
	sent := make(chan error, 1)
	go func() { sent <- w.Forward([]byte("1\n")) }()
	<-s.entered
	if w.TrySend([]byte("no\n")) {
		t.Error("it sent while another was writing")
	}
	s.let <- nil
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	tried := make(chan bool, 1)
	go func() { tried <- w.TrySend([]byte("2\n")) }()
	<-s.entered
	s.let <- nil
	if !<-tried {
		t.Error("it did not send without a concurrent writer")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.TrySend([]byte("no\n")) {
		t.Error("it sent after Close")
	}
	if err := w.Forward([]byte("no\n")); !errors.Is(err, ErrClosed) {
		t.Errorf("Forward after Close returns %v", err)
	}
	if got := s.got.String(); got != "1\n2\n" {
		t.Errorf("got %q", got)
	}
}

func TestWriter_CloseEndsWait(t *testing.T) {
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(out, 16<<20)
	if err := w.Post(make([]byte, 8<<20)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil { // it is writing now, and the pipe is not enough
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- w.Close() }()
	_ = out.Close()
	if err := <-closed; !errors.Is(err, os.ErrClosed) {
		t.Errorf("Close returns %v", err)
	}
	_ = r.Close()
}

func TestWriter_ReturnsBrokenPipe(t *testing.T) {
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	w := NewWriter(out, 0)
	if err := w.Forward([]byte("x\n")); err == nil {
		t.Error("a write to a pipe without a reader succeeded")
	}
	_ = out.Close()
}

func TestForward_AllocatesNothing(t *testing.T) {
	out, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	w := NewWriter(out, 0)
	if n := testing.AllocsPerRun(100, func() {
		if err := w.Forward(update300); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Forward allocates %v times, want 0", n)
	}
}
