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
	if err := os.Mkdir(dir+"/.ssh", 0o700); err != nil {
		t.Fatal(err)
	}
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJJ me\n"
	for name, text := range map[string]string{"known_hosts": "x.example " + key, "allowed": "* " + key, "id": private, "config": "Host x\n"} {
		if err := os.WriteFile(dir+"/.ssh/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(dir+"/pipe.pem", 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"a.pem": true, "b.PEM": true, "a.key": false, "both.pem": false, "a.txt": false, "long.pem": false, "pipe.pem": false, "none.pem": false,
		".ssh/known_hosts": true, ".ssh/allowed": true, ".ssh/id": false, ".ssh/config": false, ".ssh/none": false, ".ssh": false,
	} {
		if got := HoldsNoSecret(dir + "/" + name); got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
}
