package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
)

func TestAgent_AcceptsLongLines(t *testing.T) {
	p := start(t, behaviour{exitInitialize: -1})
	p.ask("initialize", `{"protocolVersion":1}`)
	session := p.open("/w")
	blob := strings.Repeat("QUJD", 4<<20) // 16 MiB, which the library would end the connection for
	answer := p.ask("session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":"blocks"},{"type":"image","mimeType":"image/png","data":%q}]}`, session, blob))
	if want := fmt.Sprintf("image/png %d bytes", 12<<20); !strings.Contains(answer, want) || !strings.Contains(answer, "end_turn") {
		t.Errorf("got %.400q, want %q and the turn's end", answer, want)
	}
	// A long message without an id has no answer, and the connection stays open.
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"none","_meta":{"x":%q}}}`, blob))
	if answer := p.ask("session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":"repeat hello"}]}`, session)); !strings.Contains(answer, "end_turn") {
		t.Errorf("the turn after a long notification: %.400q", answer)
	}
}

func TestLongLines_ReplacesLongAnswers(t *testing.T) {
	var log bytes.Buffer
	in := `{"jsonrpc":"2.0","id":7,"result":"` + strings.Repeat("x", libraryLine) + "\"}\n" +
		`"` + strings.Repeat("x", libraryLine) + "\"\n" + `{"id":8}` + "\n"
	out, err := io.ReadAll(newLongLines(strings.NewReader(in), slog.New(slog.NewTextHandler(&log, nil))))
	lines := strings.Split(string(out), "\n")
	if err != nil || len(lines) != 3 || !strings.HasPrefix(lines[0], `{"jsonrpc":"2.0","id":7,"error":{"code":-32603`) || lines[1] != `{"id":8}` {
		t.Errorf("got %.400q, %v", out, err)
	}
	if !strings.Contains(log.String(), "dropped") {
		t.Errorf("the log is %q, and does not state that a line was dropped", log.String())
	}
}

func TestLongLines_DropsLinesAboveLimit(t *testing.T) {
	var log bytes.Buffer
	in := io.MultiReader(io.LimitReader(zeros{}, longestLine), strings.NewReader("\n{\"id\":8}\n"))
	out, err := io.ReadAll(newLongLines(in, slog.New(slog.NewTextHandler(&log, nil))))
	if err != nil || string(out) != "{\"id\":8}\n" || !strings.Contains(log.String(), "too long") {
		t.Errorf("got %.100q, %v, log %q", out, err, log.String())
	}
}

// zeros is an endless line.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '0'
	}
	return len(b), nil
}
