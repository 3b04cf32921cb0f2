package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/acphost/acphost/internal/testkit"
)

// chunks hands out data in pieces of random size.
type chunks struct {
	data []byte
	rnd  *rand.Rand
	most int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+c.rnd.IntN(c.most))], c.data)
	c.data = c.data[n:]
	return n, nil
}

// endless repeats a byte n times, then hands out its tail.
type endless struct {
	head, tail []byte
	fill       int64
}

var filler = strings.Repeat("x", 64<<10)

func (e *endless) Read(p []byte) (int, error) {
	switch {
	case len(e.head) > 0:
		n := copy(p, e.head)
		e.head = e.head[n:]
		return n, nil
	case e.fill > 0:
		n := int(min(int64(len(p)), e.fill))
		for at := 0; at < n; {
			at += copy(p[at:n], filler)
		}
		e.fill -= int64(n)
		return n, nil
	case len(e.tail) > 0:
		n := copy(p, e.tail)
		e.tail = e.tail[n:]
		return n, nil
	}
	return 0, io.EOF
}

func readAll(t *testing.T, r *Reader) (lines []string, long []*TooLong) {
	t.Helper()
	for {
		line, err := r.Next()
		var l *TooLong
		switch {
		case errors.As(err, &l):
			long = append(long, l)
			lines = append(lines, fmt.Sprintf("too long: %d", l.Size))
		case errors.Is(err, io.EOF):
			if _, again := r.Next(); !errors.Is(again, io.EOF) {
				t.Errorf("after the end Next returns %v", again)
			}
			return lines, long
		case err != nil:
			t.Fatal(err)
		default:
			lines = append(lines, string(line))
		}
	}
}

func TestReader_ReturnsWholeLines(t *testing.T) {
	big := strings.Repeat("b", 3*readSize)
	for _, tt := range []struct {
		name string
		in   string
		want []string
	}{
		{"nothing", "", nil},
		{"one line", "a\n", []string{"a\n"}},
		{"a last line without a line feed", "a\nb", []string{"a\n", "b\n"}},
		{"blank lines", "\n\na\n", []string{"\n", "\n", "a\n"}},
		{"a line far longer than the buffer", "a\n" + big + "\nc\n", []string{"a\n", big + "\n", "c\n"}},
		{"a line of just the limit", strings.Repeat("m", 1<<20) + "\n", []string{strings.Repeat("m", 1<<20) + "\n"}},
		{"a line of just the limit at the end", strings.Repeat("m", 1<<20), []string{strings.Repeat("m", 1<<20) + "\n"}},
		{"one byte more", strings.Repeat("m", 1<<20+1) + "\nc\n", []string{"too long: 1048577", "c\n"}},
		{"one byte more at the end", "a\n" + strings.Repeat("m", 1<<20+1), []string{"a\n", "too long: 1048577"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, src := range []io.Reader{
				strings.NewReader(tt.in), iotest.DataErrReader(strings.NewReader(tt.in)),
				&chunks{[]byte(tt.in), rand.New(rand.NewPCG(1, 2)), 60000},
			} {
				got, _ := readAll(t, NewReader(src, 1<<20))
				if fmt.Sprint(got) != fmt.Sprint(tt.want) {
					t.Errorf("got %.200q, want %.200q", got, tt.want)
				}
			}
		})
	}
}

func TestReader_FindsIDOfTooLongLine(t *testing.T) {
	filler := filler[:5000]
	for _, tt := range []struct {
		name, line, id, method string
	}{
		{"in front", `{"jsonrpc":"2.0","id":7,"method":"m","params":{"x":"` + filler + `"}}`, "7", "m"},
		{"at the end", `{"params":{"id":1,"method":"no","x":["` + filler + `\"",{"id":3}]}, "method" : "m\/n", "id" : "a-\"b" }`, `"a-\"b"`, "m/n"},
		{"escaped names", `{"x":"` + filler + `","\u0069d":null,"m\u0065thod":"m"}`, "null", "m"},
		{"a long string with backslashes", `{"x":"` + strings.Repeat(`\\`, 4000) + `","id":-1.5e3}`, "-1.5e3", ""},
		{"two ids", `{"id":1,"x":"` + filler + `","id":2,"method":"m"}`, "", "m"},
		{"an id that is an object", `{"id":{"id":1},"x":"` + filler + `","method":["m"]}`, "", ""},
		{"an id without end", `{"id":"` + filler + `","method":"m"}`, "", "m"},
		{"a name without end", `{"` + filler + `":1,"id":2}`, "2", ""},
		{"a batch", `[{"id":1,"x":"` + filler + `"}]`, "", ""},
		{"no JSON", filler, "", ""},
		{"values that look like names", `{"x":"id","y":["id",1],"z":"method","w":"` + filler + `"}`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, most := range []int{1, 7, 5000, 1 << 20} {
				src := &chunks{[]byte(tt.line + "\nnext\n"), rand.New(rand.NewPCG(1, 2)), most}
				lines, long := readAll(t, NewReader(src, 100))
				if len(long) != 1 || len(lines) != 2 || lines[1] != "next\n" {
					t.Fatalf("got lines %.100q", lines)
				}
				l := long[0]
				if l.Size != int64(len(tt.line)) || string(l.ID) != tt.id || string(l.Method) != tt.method || l.Max != 100 {
					t.Errorf("got size %d, id %q, method %q; want %d, %q, %q", l.Size, l.ID, l.Method, len(tt.line), tt.id, tt.method)
				}
			}
		})
	}
}

func TestReader_DiscardsInLittleMemory(t *testing.T) {
	const size = 150 << 20
	r := NewReader(&endless{head: []byte(`{"x":"`), fill: size, tail: []byte("\",\"id\":42}\nnext\n")}, 1<<20)
	_, err := r.Next()
	var long *TooLong
	if !errors.As(err, &long) || string(long.ID) != "42" || long.Size < size {
		t.Fatalf("got %v (%+v), want a line of %d bytes with id 42", err, long, size)
	}
	if cap(r.buf) > 4<<20 {
		t.Errorf("the buffer holds %d bytes", cap(r.buf))
	}
	if line, err := r.Next(); string(line) != "next\n" || err != nil {
		t.Errorf("then got %q, %v", line, err)
	}
}

func TestReader_ReadsLongLinesInLinearTime(t *testing.T) {
	const size = 100 << 20
	r := NewReader(iotest.DataErrReader(&endless{head: []byte("{"), fill: size, tail: []byte("\nnext\n")}), 128<<20)
	// With a quadratic reader this takes minutes.
	testkit.TakesAtMost(t, 30*time.Second, "a line of 100 MiB", func() {
		line, err := r.Next()
		if err != nil || len(line) != size+2 {
			t.Fatalf("got %d bytes, %v", len(line), err)
		}
		if line, err = r.Next(); string(line) != "next\n" || err != nil {
			t.Fatalf("then got %q, %v", line, err)
		}
		if _, err = r.Next(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	})
	if cap(r.buf) > keepSize {
		t.Errorf("at rest the buffer holds %d bytes", cap(r.buf))
	}
}

func TestReader_KeepsLinesUntilNextRead(t *testing.T) {
	var in []byte
	var want []string
	for i := range 20000 {
		l := fmt.Sprintf("line %d %s\n", i, strings.Repeat("x", i%97))
		want = append(want, l)
		in = append(in, l...)
	}
	r := NewReader(&chunks{in, rand.New(rand.NewPCG(3, 4)), 1 << 17}, 1<<20)
	var all bytes.Buffer
	runs := 0
	for done := false; !done; {
		var run []byte
		for {
			line, err := r.Next()
			if errors.Is(err, io.EOF) {
				done = true
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			joined, ok := Span(run, line)
			if !ok {
				t.Fatalf("lines %q and %q do not join", run, line)
			}
			if run = joined; !r.Buffered() {
				break
			}
		}
		all.Write(run)
		runs++
	}
	if all.String() != strings.Join(want, "") {
		t.Error("the runs are not what was sent")
	}
	if runs > len(want)/10 {
		t.Errorf("%d lines arrived in %d runs", len(want), runs)
	}
}

func TestSpan_RejectsSeparateLines(t *testing.T) {
	b := []byte("a\nb\nc\n")
	if _, ok := Span(b[0:2], b[4:6]); ok {
		t.Error("two lines with one between were joined")
	}
	if _, ok := Span(b[0:2:2], b[2:4]); ok {
		t.Error("a run without capacity was extended")
	}
}

func TestReader_DropsPartialLineBeforeError(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), 100)
	if line, err := r.Next(); string(line) != "a\n" || err != nil {
		t.Fatal(line, err)
	}
	for range 2 {
		if line, err := r.Next(); line != nil || !errors.Is(err, broken) {
			t.Errorf("got %q, %v", line, err)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), uint64(1), 4, 2)
	f.Add([]byte("{\"id\":1,\"x\":\"yyyyyyyyyyyyyyyyyyy\"}\n{}\n"), uint64(7), 8, 3)
	f.Fuzz(func(t *testing.T, in []byte, seed uint64, limit, most int) {
		if limit < 1 || most < 1 {
			return
		}
		limit %= 1 << 16
		got, _ := readAll(t, NewReader(&chunks{in, rand.New(rand.NewPCG(seed, 0)), most}, limit))
		var want []string
		for line := range bytes.Lines(in) {
			body := bytes.TrimSuffix(line, []byte("\n"))
			if len(body) > limit {
				want = append(want, fmt.Sprintf("too long: %d", len(body)))
			} else {
				want = append(want, string(body)+"\n")
			}
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// FuzzTooLong compares what is found in a line that is thrown away with what a Scanner finds in it.
func FuzzTooLong(f *testing.F) {
	f.Add([]byte(`{"x":[1,{"id":2}],"id":"a\"","method":"m\/n"}`), 3)
	f.Add([]byte(`{"m\u0065thod":"x", "id" : null , "params":{"a":"\\\""}}`), 1)
	var s Scanner
	f.Fuzz(func(t *testing.T, line []byte, most int) {
		var m Message
		if most < 1 || bytes.IndexByte(line, '\n') >= 0 || s.Scan(line, &m) != nil || m.Kind == KindBatch || len(line) > 60 {
			return
		}
		_, err := NewReader(&chunks{line, rand.New(rand.NewPCG(1, 2)), most}, 1).Next()
		var long *TooLong
		if !errors.As(err, &long) {
			t.Fatal(err)
		}
		if !bytes.Equal(long.ID, m.ID) || !bytes.Equal(long.Method, m.Method) {
			t.Fatalf("got id %q, method %q; want %q, %q", long.ID, long.Method, m.ID, m.Method)
		}
	})
}
