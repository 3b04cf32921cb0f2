package chat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHistory_KeepsTypedText(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "acphost")
	h, err := openHistory(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two\nlines", "two\nlines", strings.Repeat("x", historyEntry+1)} {
		if keep := h.Add(text); keep != nil {
			if err := keep(); err != nil {
				t.Fatal(err)
			}
		}
	}
	info, err := os.Stat(filepath.Join(dir, "chat_history"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v, want mode 600", info, err)
	}
	h, err = openHistory(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(h.entries, "|"); got != "one|two\nlines" {
		t.Errorf("read %q", got)
	}
	for _, want := range []string{"two\nlines", "one"} {
		if got, ok := h.Back("draft"); !ok || got != want {
			t.Errorf("back is %q, %v, want %q", got, ok, want)
		}
	}
	if _, ok := h.Back(""); ok {
		t.Error("there is something before the first")
	}
	h.Forward()
	if got, ok := h.Forward(); !ok || got != "draft" {
		t.Errorf("forward is %q, %v, want what was being written", got, ok)
	}
}

func TestHistory_LimitsFile(t *testing.T) {
	dir := t.TempDir()
	h, err := openHistory(dir)
	if err != nil {
		t.Fatal(err)
	}
	entry := strings.Repeat("x", historyEntry-10)
	for i := range 300 { // 4.8 MiB
		if keep := h.Add(entry + string(rune('a'+i%26))); keep != nil {
			if err := keep(); err != nil {
				t.Fatal(err)
			}
		}
	}
	info, err := os.Stat(h.file)
	if err != nil || info.Size() > 2*historyBytes+2*historyEntry {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	if h, err = openHistory(dir); err != nil || len(h.entries) == 0 || len(h.entries[0]) != len(entry)+1 {
		t.Errorf("the remaining file cannot be read: %d entries, %v", len(h.entries), err)
	}
}

func TestHistory_IgnoresFileOfOthers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "chat_history")
	if err := os.Symlink("/etc/passwd", file); err != nil {
		t.Fatal(err)
	}
	h, err := openHistory(dir)
	if err == nil || h == nil || h.file != "" {
		t.Errorf("got %+v, %v", h, err)
	}
	if keep := h.Add("x"); keep != nil {
		t.Error("it is written")
	}
}

func TestHistory_StaysInMemoryWithoutStateFolder(t *testing.T) {
	h, err := openHistory("")
	if err != nil || h.Add("one") != nil || h.Add("two") != nil {
		t.Errorf("something is kept: %v", err)
	}
	if got, _ := h.Back(""); got != "two" {
		t.Errorf("back is %q", got)
	}
}

func TestHistory_SkipsInvalidLines(t *testing.T) {
	dir := t.TempDir()
	text := "\"good\"\n{\n\"\\u001b[31mred\"\n\"torn"
	if err := os.WriteFile(filepath.Join(dir, "chat_history"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := openHistory(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(h.entries, "|"); got != "good|[31mred" {
		t.Errorf("read %q", got)
	}
}
