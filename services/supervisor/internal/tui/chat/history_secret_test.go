package chat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHistory_FileHasNoSecrets(t *testing.T) {
	dir := t.TempDir()
	h, err := openHistory(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Add("run mysql -uroot -phush app")(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "chat_history"))
	if err != nil || strings.Contains(string(data), "hush") || !strings.Contains(string(data), "mysql -uroot -p[redacted] app") {
		t.Errorf("the file has %q (%v)", data, err)
	}
	if got, _ := h.Back(""); got != "run mysql -uroot -phush app" {
		t.Errorf("in this chat it is %q", got)
	}
}
