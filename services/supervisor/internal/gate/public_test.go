package gate

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestHoldsNoSecret_ReadsContent(t *testing.T) {
	dir := t.TempDir()
	const public = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"
	private := strings.ReplaceAll(public, "PUBLIC", "PRIVATE")
	for name, text := range map[string]string{
		"a.pem": public, "b.PEM": public, "a.key": private, "both.pem": public + private, "a.txt": public, "long.pem": strings.Repeat(public, maxKeyFile/len(public)+1),
	} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(dir+"/pipe.pem", 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"a.pem": true, "b.PEM": true, "a.key": false, "both.pem": false, "a.txt": false, "long.pem": false, "pipe.pem": false, "none.pem": false,
	} {
		if got := HoldsNoSecret(dir + "/" + name); got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
}
