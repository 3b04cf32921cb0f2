package guard

import "github.com/acphost/acphost/internal/nulmsg"

// Exchange implements nulmsg.Message.
func (j *Job) Exchange(c *nulmsg.Codec) {
	c.Texts("command", &j.Command)
	c.Text("dir", &j.Dir)
	c.Texts("env", &j.Env)
	c.Text("mark", &j.Mark)
	if user := nulmsg.Optional(c, "user", &j.Credential); user != nil {
		nulmsg.Number(c, "uid", &user.Uid)
		nulmsg.Number(c, "gid", &user.Gid)
		nulmsg.Numbers(c, "group", &user.Groups)
		c.Flag("no_set_groups", &user.NoSetGroups)
	}
	nulmsg.Number(c, "grace_ns", &j.Grace)
	c.Texts("sandbox", &j.Sandbox)
	c.Text("control_group", &j.Group)
	c.Flag("no_landlock", &j.NoLandlock)
	c.Flag("no_seccomp", &j.NoSeccomp)
	c.Texts("unreadable", &j.Unreadable)
	c.Flag("one_port", &j.OnePort)
	nulmsg.Number(c, "port", &j.Port)
	nulmsg.Numbers(c, "keep", &j.Keep)
	c.Flag("changes_user", &j.ChangesUser)
}

// Exchange implements nulmsg.Message.
func (r *Report) Exchange(c *nulmsg.Codec) {
	if s := nulmsg.Optional(c, "started", &r.Started); s != nil {
		nulmsg.Number(c, "pid", &s.PID)
		c.Flag("landlock", &s.Restrictions.Landlock)
		c.Flag("unreadable", &s.Restrictions.Unreadable)
		c.Flag("one_port", &s.Restrictions.OnePort)
		c.Flag("seccomp", &s.Restrictions.Seccomp)
		c.Flag("capabilities", &s.Restrictions.Capabilities)
		c.Texts("note", &s.Restrictions.Notes)
	}
	if f := nulmsg.Optional(c, "failed", &r.Failed); f != nil {
		c.Flag("not_found", &f.NotFound)
		c.Text("detail", &f.Detail)
	}
	if e := nulmsg.Optional(c, "ended", &r.Ended); e != nil {
		nulmsg.Number(c, "code", &e.Code)
		c.Text("signal", &e.Signal)
		nulmsg.Number(c, "number", &e.Number)
	}
	c.Flag("clean", &r.Clean)
}
