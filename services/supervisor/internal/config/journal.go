package config

import (
	"cmp"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
)

const journalName = "journal" // in the state folder

func (v *checker) journal(j *configv1.Journal) {
	at := path("journal")
	v.absoluteFile(at.to("dir"), j.GetDir())
	v.bound(at.to("max_age_days"), uint64(j.GetMaxAgeDays()), 1, 3650)
	v.bound(at.to("max_total_bytes"), j.GetMaxTotalBytes(), 1<<20, 1<<62)
	v.bound(at.to("max_session_bytes"), j.GetMaxSessionBytes(), 64<<10, 1<<62)
}

// effectiveJournal fills in the defaults.
func (c *Config) effectiveJournal(j *configv1.Journal) {
	j.Content = cmp.Or(j.Content, proto.Bool(true))
	orDefault(&j.Dir, c.stateFile(journalName))
	orDefault(&j.MaxAgeDays, 30)
	orDefault(&j.MaxTotalBytes, 1<<30)
	orDefault(&j.MaxSessionBytes, 512<<20)
}
