package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/sdk/handler"
)

// TestMain plays the handler that is checked.
func TestMain(m *testing.M) {
	if os.Getenv("BE_A_HANDLER") != "" {
		handler.Main(handler.Handler{
			Name: "sound", Version: "1",
			Register: func(s grpc.ServiceRegistrar) {
				s.RegisterService(&grpc.ServiceDesc{ServiceName: "test.v1.Nothing"}, nil)
			},
		})
	}
	goleak.VerifyTestMain(m)
}

func TestMain_ExitStatus(t *testing.T) {
	self := testkit.Self(t)
	wrong := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(wrong, []byte("colour: blue\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	nothing := filepath.Join(t.TempDir(), "nothing")
	for name, c := range map[string]struct {
		args   []string
		status int
		prints string
	}{
		"a sound handler":               {[]string{"--kind", "extension", "--env", "BE_A_HANDLER=1", "--env", "GORACE=atexit_sleep_ms=0", "--", self}, 0, " passed, 0 failed\n"},
		"one of another kind":           {[]string{"--kind", "fs", "--env", "BE_A_HANDLER=1", "--env", "GORACE=atexit_sleep_ms=0", "--", self}, 1, "FAIL  plugin/Describe lists"},
		"some cases only":               {[]string{"--kind", "extension", "--run", "Hold", "--env", "BE_A_HANDLER=1", "--env", "GORACE=atexit_sleep_ms=0", "--", self}, 0, "4 passed, 0 failed\n"},
		"no case at all":                {[]string{"--kind", "extension", "--run", "nonsense", "--env", "BE_A_HANDLER=1", "--env", "GORACE=atexit_sleep_ms=0", "--", self}, 1, "0 passed, 0 failed\n"},
		"a program that is not there":   {[]string{"--kind", "fs", "--", nothing}, 2, nothing},
		"an address without a listener": {[]string{"--kind", "fs", "--address", "unix://" + nothing}, 2, nothing},
		"a program and an address":      {[]string{"--kind", "fs", "--address", "unix:///s", "--", self}, 2, "both"},
		"neither":                       {[]string{"--kind", "fs"}, 2, "neither"},
		"no kind":                       {[]string{"--", self}, 2, "--kind"},
		"an unknown kind":               {[]string{"--kind", "nonsense", "--", self}, 2, "nonsense"},
		"an unknown flag":               {[]string{"--nonsense"}, 2, "nonsense"},
		"unreadable settings":           {[]string{"--kind", "fs", "--settings", nothing, "--", self}, 2, nothing},
		"settings that are wrong":       {[]string{"--kind", "extension", "--settings", wrong, "--env", "BE_A_HANDLER=1", "--env", "GORACE=atexit_sleep_ms=0", "--", self}, 1, "colour"},
		"help":                          {[]string{"--help"}, 0, "usage:"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if got := run(t.Context(), c.args, &out, &out); got != c.status || !strings.Contains(out.String(), c.prints) {
				t.Errorf("status %d, want %d; it printed:\n%s\nwant %q in it", got, c.status, out.String(), c.prints)
			}
		})
	}
}
