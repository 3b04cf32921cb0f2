package cli_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
)

// varying are parts of acphost's output that differ from run to run, and their replacements in golden files.
var varying = []struct {
	re *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`acphost-[0-9a-f]{32}`), "TERMINAL"},
	{regexp.MustCompile(`demo-[A-Z2-7]{26}`), "SESSION"},
	{regexp.MustCompile(`([a-z]+-[0-9]+/[0-9]+)\.[A-Z2-7]{26}`), "$1"},
	{regexp.MustCompile(`"cursor":"[^"]*"`), `"cursor":"CURSOR"`},
	{regexp.MustCompile(`"(time|expireTime|startTime|updatedAt)":"20[^"]*Z"`), `"$1":"TIME"`},
	{regexp.MustCompile(`"pid":"?[0-9]+"?`), `"pid":PID`},
	{regexp.MustCompile(`[0-9]+(\.[0-9]+)? ?(ms|µs|s)\b`), "DURATION"},
}

// golden compares with a file below testdata, in which the place is HOME.
func golden(t testing.TB, p *e2e.Place, name, got string) {
	t.Helper()
	got = strings.ReplaceAll(got, p.Home, "HOME")
	for _, v := range varying {
		got = v.re.ReplaceAllString(got, v.by)
	}
	testkit.Golden(t, name, got)
}
