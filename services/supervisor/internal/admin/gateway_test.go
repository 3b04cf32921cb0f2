package admin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func framesOf(lines ...string) *supervisorv1.OpenAgentRequest {
	f := &supervisorv1.Frames{}
	for _, l := range lines {
		f.Frames = append(f.Frames, []byte(l))
	}
	return &supervisorv1.OpenAgentRequest{Part: &supervisorv1.OpenAgentRequest_Frames{Frames: f}}
}

// feeding returns messages one after the other, and then an error.
func feeding(err error, all ...*supervisorv1.OpenAgentRequest) func() (*supervisorv1.OpenAgentRequest, error) {
	return func() (*supervisorv1.OpenAgentRequest, error) {
		if len(all) == 0 {
			return nil, err
		}
		next := all[0]
		all = all[1:]
		return next, nil
	}
}

func TestFrameReader_ReadsFramesAsLines(t *testing.T) {
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole":            func(r io.Reader) io.Reader { return r },
		"a byte at a time": iotest.OneByteReader,
		"by halves":        iotest.HalfReader,
	} {
		r := &frameReader{recv: feeding(io.EOF, framesOf("{}", `{"a":1}`), framesOf("x"), framesOf(strings.Repeat("y", 5000)))}
		got, err := io.ReadAll(wrap(r))
		if want := "{}\n{\"a\":1}\nx\n" + strings.Repeat("y", 5000) + "\n"; err != nil || string(got) != want {
			t.Errorf("%s: got %.60q (%v)", name, got, err)
		}
	}
}

func TestFrameReader_ReturnsStreamErrors(t *testing.T) {
	open := &supervisorv1.OpenAgentRequest{Part: &supervisorv1.OpenAgentRequest_Open{Open: &supervisorv1.GatewayOpen{}}}
	r := &frameReader{recv: feeding(io.EOF, framesOf("{}"), open, framesOf("lost"))}
	got, err := io.ReadAll(r)
	if string(got) != "{}\n" || status.Code(err) != codes.InvalidArgument {
		t.Errorf("got %q, %v", got, err)
	}
	if _, again := r.Read(make([]byte, 1)); !errors.Is(again, err) {
		t.Errorf("the error did not stay: %v", again)
	}
	broken := errors.New("broken")
	if _, err := io.ReadAll(&frameReader{recv: feeding(broken, framesOf("{}"))}); !errors.Is(err, broken) {
		t.Errorf("got %v, want the stream's error", err)
	}
}

// sent gathers what a frameWriter sends.
type sent struct {
	frames   []string
	messages int
	largest  int
	err      error
}

func (s *sent) send(r *supervisorv1.OpenAgentResponse) error {
	size := 0
	for _, f := range r.GetFrames().GetFrames() {
		s.frames = append(s.frames, string(f))
		size += len(f)
	}
	s.messages++
	s.largest = max(s.largest, size)
	return s.err
}

func TestFrameWriter_SendsSplitLinesAsFrames(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	var want []string
	var all bytes.Buffer
	for range 400 {
		line := strings.Repeat("z", 1+random.IntN(1<<random.IntN(17)))
		want = append(want, line)
		all.WriteString(line + "\n")
		if random.IntN(10) == 0 {
			all.WriteByte('\n') // an empty line is ignored
		}
	}
	var s sent
	w := &frameWriter{ctx: t.Context(), send: s.send, opened: make(chan struct{})}
	close(w.opened)
	for b := all.Bytes(); len(b) > 0; {
		n := min(1+random.IntN(1<<random.IntN(20)), len(b))
		piece := bytes.Clone(b[:n])
		if wrote, err := w.Write(piece); wrote != n || err != nil {
			t.Fatalf("wrote %d of %d: %v", wrote, n, err)
		}
		for i := range piece {
			piece[i] = '!' // the caller's again
		}
		b = b[n:]
	}
	if len(s.frames) != len(want) {
		t.Fatalf("seed %d: %d frames, want %d", seed, len(s.frames), len(want))
	}
	for i := range want {
		if s.frames[i] != want[i] {
			t.Fatalf("seed %d: frame %d is %.40q…, want %.40q…", seed, i, s.frames[i], want[i])
		}
	}
	if s.largest > 2*maxSent || s.messages > len(want) {
		t.Errorf("%d messages of up to %d bytes", s.messages, s.largest)
	}
}

func TestFrameWriter_SendsOnlyWhileOpen(t *testing.T) {
	var s sent
	ctx, cancel := context.WithCancel(t.Context())
	w := &frameWriter{ctx: ctx, send: s.send, opened: make(chan struct{})}
	wrote := make(chan error, 1)
	go func() {
		_, err := w.Write([]byte("a\n"))
		wrote <- err
	}()
	if s.messages != 0 {
		t.Error("a frame was sent before the agent was opened")
	}
	close(w.opened)
	if err := <-wrote; err != nil || len(s.frames) != 1 {
		t.Errorf("once it is opened: %v, %q", err, s.frames)
	}
	cancel()
	if _, err := w.Write([]byte("b\n")); !errors.Is(err, context.Canceled) || len(s.frames) != 1 {
		t.Errorf("after the call: %v, %q", err, s.frames)
	}
}

func TestOpenAgent_RejectsFramesThatAreNoLine(t *testing.T) {
	for name, c := range map[string]struct {
		req  *supervisorv1.OpenAgentRequest
		want string
	}{
		"nothing":                 {&supervisorv1.OpenAgentRequest{}, "part:"},
		"no frames":               {framesOf(), "frames: there are none"},
		"an empty frame":          {framesOf("{}", ""), "frames[1]:"},
		"two lines":               {framesOf("{}\n{}"), "frames[0]:"},
		"a name that is too long": {&supervisorv1.OpenAgentRequest{Part: &supervisorv1.OpenAgentRequest_Open{Open: &supervisorv1.GatewayOpen{Agent: strings.Repeat("a", 300)}}}, "open.agent:"},
	} {
		if err := problem(c.req); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if err := problem(framesOf("{}", `{"a":"\n"}`, "{}\r")); err != nil {
		t.Errorf("frames that are in order: %v", err)
	}
}
