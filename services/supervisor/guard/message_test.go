package guard

import (
	"bufio"
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/nulmsg"
)

// A field that is added and not written would be lost between supervisor and guard: a wall, say.
func TestMessages_CarryEachField(t *testing.T) {
	for _, m := range []struct{ full, read nulmsg.Message }{{new(Job), new(Job)}, {new(Report), new(Report)}} {
		fill(t, reflect.ValueOf(m.full).Elem())
		carry(t, m.full, m.read)
	}
	carry(t, &Job{Env: []string{"A==", "B=\n\x01é"}, Command: []string{"", ""}}, new(Job))
	carry(t, &Report{Clean: true}, new(Report))
}

func TestMessages_RejectNUL(t *testing.T) {
	if _, err := nulmsg.Marshal(&Job{Env: []string{"A=1", "B=\x00sandbox=/bin/true"}}); err == nil || !strings.Contains(err.Error(), "env:") {
		t.Errorf("err = %v, want one that names env", err)
	}
}

func TestMessages_RejectTruncated(t *testing.T) {
	whole, err := nulmsg.Marshal(&Job{Command: []string{"agent"}, Mark: "A=1"})
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if err := nulmsg.Read(bufio.NewReader(bytes.NewReader(whole[:n])), new(Job)); err == nil {
			t.Errorf("the first %d bytes of %q were read as a whole message", n, whole)
		}
	}
}

func carry(t *testing.T, m, read nulmsg.Message) {
	t.Helper()
	text, err := nulmsg.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	rest := "next"
	from := bufio.NewReader(strings.NewReader(string(text) + rest))
	if err := nulmsg.Read(from, read); err != nil || !reflect.DeepEqual(read, m) {
		t.Errorf("%q was read as %+v, %v; want %+v", text, read, err, m)
	}
	if after, _ := from.ReadString(0); after != rest {
		t.Errorf("%q was read up to %q", text, after)
	}
}

// fill sets every field to something that is not its zero value.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				fill(t, field)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i))
		}
	case reflect.String:
		v.SetString("a=b c\n" + strings.Repeat("x", 5000))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(-7)
	case reflect.Uint16:
		v.SetUint(1<<16 - 2)
	case reflect.Uint, reflect.Uint32:
		v.SetUint(1<<32 - 2)
	default:
		t.Fatalf("a %s: teach the test and the codec", v.Type())
	}
}
