package output

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // times are printed as the person's clock shows them
	os.Exit(m.Run())
}

func sessionsTable() *Table {
	t := NewTable("none", "STARTED", "KEY", "SESSION", "STATE", "SIZE", "TITLE").Long("TITLE").Spare("SIZE", "SESSION")
	at := time.Date(2026, 3, 1, 12, 0, 5, 0, time.UTC)
	t.Add(at, "0123456789ab", "demo-IN3TEFEJXXB5ARXZKSSHKHU27P", Good("live"), "6 KiB", "Fix the flaky test of the parser, please, and say why 日本語 it was flaky")
	t.Add(at.AddDate(0, -1, 0), "0123456789ac", "4f1c", Faint("ended"), "12 KiB", "")
	t.Add(at.AddDate(-1, 0, 0), "0123456789ad", "", Warn("ended, lacks 3 frames"), "1.0 MiB", "\x1b[31mred")
	t.Add(time.Time{}, 7, "", Bad("failed"), "", "x")
	return t
}

func TestTable_FitsWidth(t *testing.T) {
	today := time.Date(2026, 3, 1, 18, 0, 0, 0, time.UTC)
	var all strings.Builder
	for _, lay := range []layout{{}, {width: 200, today: today}, {width: 100, today: today}, {width: 80, today: today}, {width: 60, today: today}, {width: 80, today: today, color: true}} {
		text := sessionsTable().text(lay)
		for line := range strings.Lines(text) {
			if n := safetext.Width(strings.TrimSuffix(line, "\n")); lay.width > 0 && n > lay.width {
				t.Errorf("of %d columns, a line takes %d: %q", lay.width, n, line)
			}
		}
		all.WriteString(text + "\n")
	}
	testkit.Golden(t, "tables.txt", strings.ReplaceAll(all.String(), "\x1b", "ESC"))
}

func TestTable_NamesTimeZone(t *testing.T) {
	defer func(was *time.Location) { time.Local = was }(time.Local)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for want, zone := range map[string]*time.Location{"UTC": time.UTC, "CET": time.FixedZone("CET", 3600), "UTC+05:30": time.FixedZone("+0530", 19800), "UTC-03:00": time.FixedZone("", -10800)} {
		time.Local = zone
		if got := Zone(at); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestPager_FromEnvironment(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{EnvPager: "cat"}, ""},
		{map[string]string{EnvPager: " ", EnvAnyPager: "sh"}, ""},
		{map[string]string{EnvPager: "sh -c x", EnvAnyPager: "cat"}, "sh -c x"},
		{map[string]string{EnvAnyPager: "sh"}, "sh"},
	} {
		if got := strings.Join(pagerOf(func(name string) string { return tt.env[name] }), " "); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.env, got, tt.want)
		}
	}
	if program := NewPager(&command.Call{Stdout: os.Stdin, Env: os.Getenv, Terminal: func(*os.File) bool { return false }}).program; program != nil {
		t.Errorf("without a terminal, %q would show it", program)
	}
}
