package certs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/certs"
)

func TestValidity_ShowsRemainingTime(t *testing.T) {
	until := time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)
	year := certs.Validity{From: until.AddDate(-1, 0, 0), Until: until}
	week := certs.Validity{From: until.AddDate(0, 0, -7), Until: until}
	for name, c := range map[string]struct {
		of     certs.Validity
		before time.Duration
		want   string
		soon   bool
	}{
		"long before":            {year, 100 * 24 * time.Hour, "100 days left, until 2030-06-01 12:00 UTC", false},
		"within 31 days":         {year, 30*24*time.Hour + time.Hour, "30 days left", false},
		"within a month":         {year, 29*24*time.Hour + time.Hour, "29 days left", true},
		"a minute before":        {year, time.Minute, "expires in 1m0s", true},
		"after":                  {year, -time.Minute, "expired on 2030-06-01 12:00 UTC", true},
		"of a week, at its half": {week, 84 * time.Hour, "3 days left", false},
		"of a week, at its end":  {week, 36 * time.Hour, "expires in 36h0m0s", true},
		"too early":              {year, 400 * 24 * time.Hour, "not valid before", false},
	} {
		t.Run(name, func(t *testing.T) {
			now := until.Add(-c.before)
			if got := c.of.Remaining(now); !strings.HasPrefix(got, c.want) || c.of.RenewalDue(now) != c.soon {
				t.Errorf("got %q, soon %v; want %q, soon %v", got, c.of.RenewalDue(now), c.want, c.soon)
			}
		})
	}
}
