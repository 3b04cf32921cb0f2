package launch

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
)

func FuzzRelay_LineStaysOneRecord(f *testing.F) {
	for _, seed := range []string{
		`{"@message": 1}`, `{"time":"x","level":"INFO","msg":"m","a":{"b":[1,null]},"n":-1.5e300}`,
		`{"level":"INFO","msg":"m","handler":"forged"}`, `{"level":"info+2","msg":"","":{}}`, "panic: x", "\x00\xff\n",
		`{"level":"INFO","msg":"m"}{}`, `{"level":"INFO","msg":"m","msg":3}`, strings.Repeat(`{"a":`, 100),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		line = bytes.ReplaceAll(line, []byte("\n"), []byte(" "))
		var out bytes.Buffer
		log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.Level(-100)})).With("handler", "test")
		(&outputLogger{log: log}).copy(bytes.NewReader(append(line, '\n')), "stderr")
		if len(bytes.TrimSpace(line)) == 0 {
			if out.Len() > 0 {
				t.Errorf("a blank line made %q", out.String())
			}
			return
		}
		if n := bytes.Count(out.Bytes(), []byte("\n")); n != 1 {
			t.Fatalf("%d records from one line: %q", n, out.String())
		}
		if !json.Valid(out.Bytes()) || !strings.Contains(out.String(), `"handler":"test"`) {
			t.Errorf("record %q", out.String())
		}
	})
}
