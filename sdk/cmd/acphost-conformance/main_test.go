package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/acphost/acphost/sdk/handler"
	"github.com/acphost/acphost/sdk/launch"
)

// TestMain lets the test's own binary be the handler that is checked.
func TestMain(m *testing.M) {
	if os.Getenv(launch.CookieKey) != "" {
		handler.Main(handler.Handler{
			Name: "sound", Version: "1", Services: []string{"test.v1.Nothing"},
			Register: func(grpc.ServiceRegistrar) {},
		})
	}
	goleak.VerifyTestMain(m)
}

func TestTheExitStatusSaysWhatHappened(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	nothing := filepath.Join(t.TempDir(), "nothing")
	for name, c := range map[string]struct {
		args   []string
		status int
		prints string
	}{
		"a sound handler":             {[]string{"--kind", "extension", "--", self}, 0, " passed, 0 failed\n"},
		"one of another kind":         {[]string{"--kind", "fs", "--", self}, 1, "FAIL  plugin/Describe announces"},
		"some cases only":             {[]string{"--kind", "extension", "--run", "Hold", "--", self}, 0, "3 passed, 0 failed\n"},
		"no case at all":              {[]string{"--kind", "extension", "--run", "nonsense", "--", self}, 1, "0 passed, 0 failed\n"},
		"a program that is not there": {[]string{"--kind", "fs", "--", nothing}, 2, nothing},
		"an address without anybody":  {[]string{"--kind", "fs", "--address", "unix://" + nothing}, 2, nothing},
		"a program and an address":    {[]string{"--kind", "fs", "--address", "unix:///s", "--", self}, 2, "both"},
		"neither":                     {[]string{"--kind", "fs"}, 2, "neither"},
		"no kind":                     {[]string{"--", self}, 2, "--kind"},
		"an unknown kind":             {[]string{"--kind", "nonsense", "--", self}, 2, "nonsense"},
		"an unknown flag":             {[]string{"--nonsense"}, 2, "nonsense"},
		"help":                        {[]string{"--help"}, 0, "usage:"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if got := run(t.Context(), c.args, &out, &out); got != c.status || !strings.Contains(out.String(), c.prints) {
				t.Errorf("status %d, want %d; it printed:\n%s\nwant %q in it", got, c.status, out.String(), c.prints)
			}
		})
	}
}
