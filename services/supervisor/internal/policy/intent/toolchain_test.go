package intent

import (
	"os"
	"testing"
)

func TestToolchain_DetectsNewerGo(t *testing.T) {
	for text, want := range map[string]bool{
		"module x\n\ngo 1.21\n": true, "go 1.26.1 // x": true, "toolchain default\ngo 1.20": true, "": true, "go: x": true,
		"go 1.999.0": false, "module x\n go 1.27": false, "toolchain go1.999.0": false, "toolchain go1.21-custom/../x": false,
		`go "1.21"`: false, "toolchain": false,
	} {
		dir := t.TempDir()
		if err := os.Mkdir(dir+"/sub", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/go.mod", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := oneGo(dir+"/sub", "go1.26.1"); got != want {
			t.Errorf("%q: got %t", text, got)
		}
	}
	if dir := t.TempDir(); !oneGo(dir, "") || oneGo("", "go1.26.1") {
		t.Error("where no module is, go is the one that is installed; where nothing is known, it may be another")
	}
}
