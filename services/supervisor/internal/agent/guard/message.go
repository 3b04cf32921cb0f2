package guard

import "github.com/acphost/acphost/internal/entries"

// Exchange implements entries.Message.
func (j *Job) Exchange(c *entries.Codec) {
	c.Texts("command", &j.Command)
	c.Text("dir", &j.Dir)
	c.Texts("env", &j.Env)
	c.Text("mark", &j.Mark)
	if user := entries.Optional(c, "user", &j.Credential); user != nil {
		entries.Number(c, "uid", &user.Uid)
		entries.Number(c, "gid", &user.Gid)
		entries.Numbers(c, "group", &user.Groups)
		c.Flag("no_set_groups", &user.NoSetGroups)
	}
	entries.Number(c, "grace_ns", &j.Grace)
	c.Texts("sandbox", &j.Sandbox)
	c.Flag("no_landlock", &j.NoLandlock)
	c.Flag("no_seccomp", &j.NoSeccomp)
	c.Texts("unreadable", &j.Unreadable)
	c.Flag("one_port", &j.OnePort)
	entries.Number(c, "port", &j.Port)
	entries.Numbers(c, "keep", &j.Keep)
	c.Flag("changes_user", &j.ChangesUser)
}

// Exchange implements entries.Message.
func (r *Report) Exchange(c *entries.Codec) {
	if s := entries.Optional(c, "started", &r.Started); s != nil {
		entries.Number(c, "pid", &s.PID)
		c.Flag("landlock", &s.Restrictions.Landlock)
		c.Flag("unreadable", &s.Restrictions.Unreadable)
		c.Flag("one_port", &s.Restrictions.OnePort)
		c.Flag("seccomp", &s.Restrictions.Seccomp)
		c.Flag("capabilities", &s.Restrictions.Capabilities)
		c.Texts("note", &s.Restrictions.Notes)
	}
	if f := entries.Optional(c, "failed", &r.Failed); f != nil {
		c.Flag("not_found", &f.NotFound)
		c.Text("detail", &f.Detail)
	}
	if e := entries.Optional(c, "ended", &r.Ended); e != nil {
		entries.Number(c, "code", &e.Code)
		c.Text("signal", &e.Signal)
		entries.Number(c, "number", &e.Number)
	}
	c.Flag("clean", &r.Clean)
}
