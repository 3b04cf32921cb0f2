package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/ownfile"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/sdk/launch"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/config/preset"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
)

const (
	policyTimeout = launch.ChildTimeout + 5*time.Second
	stopTimeout   = 10 * time.Second
)

// configuration checks the configuration file and the files that it names. It returns nil if the configuration is
// unusable. handlers is false if only handlers cannot be started.
func (d *doctor) configuration(ctx context.Context) (c *config.Config, handlers bool) {
	in := d.in(Configuration)
	c, err := config.Load(d.ConfigFile, d.Env)
	if err != nil {
		in.problem("file", err.Error(), "correct it; \""+d.commandFor("acphost config check")+"\" checks it again")
		return nil, false
	}
	if d.Override != nil {
		if err := d.Override(c); err != nil {
			in.problem("flags", err.Error(), "leave the flag out, or correct the configuration beside it")
			return nil, false
		}
	}
	user, err := c.AgentUser()
	if err != nil {
		in.problem("user", err.Error(), adviceUser)
		return nil, false
	}
	if user != nil {
		in.ok("user", fmt.Sprintf("agents, and the handlers that act for them, run as %s", user))
	}
	file := c.File
	file = cmp.Or(file, "none, the defaults count")
	if err := c.CheckFiles(d.Programs); err != nil {
		in.problem("file", err.Error(), "correct the paths, or put the files there; acphost's own programs stand next to acphost; \""+
			d.commandFor("acphost config check")+"\" checks it again")
		return c, false
	}
	in.ok("file", file)
	for _, danger := range c.Dangers() {
		in.warn("capabilities", danger, "leave out what the agent does not need, or let it run as another user (agent.user)")
	}
	if why := c.Unwritable(d.Dir); why != "" {
		in.warn("capabilities", why, "")
	}
	if err := c.CheckListen(); err != nil {
		in.problem("keys", err.Error(), "acphost does not serve before; \""+d.commandFor("acphost config check")+"\" checks it again")
	}
	if err := c.CheckExposed(); err != nil {
		in.problem("handlers", err.Error(), "close the file to the agent, or accept it in the handler's configuration; acphost does not start before; \""+
			d.commandFor("acphost config check")+"\" checks it again")
	}
	for _, warning := range c.Warnings {
		in.warn("file", warning, "")
	}
	d.certificates(c)
	d.policy(ctx, c)
	d.journal(c)
	d.presets()
	return c, true
}

// commandFor returns a command that uses the same configuration file.
func (d *doctor) commandFor(command string) string {
	if d.ConfigFile == "" {
		return command
	}
	return command + " --config " + d.ConfigFile
}

// certificates reports how long the certificates of the configuration are valid.
func (d *doctor) certificates(c *config.Config) {
	in, now := d.in(Configuration), time.Now()
	for _, cert := range c.Certificates() {
		v, err := certs.ValidityOf(cert.File)
		if err != nil {
			in.problem("certificate", cert.Setting+": "+err.Error(), certs.RenewHint)
			continue
		}
		detail := fmt.Sprintf("%s: %s: %s", cert.Setting, cert.File, v.Remaining(now))
		switch {
		case now.After(v.Until):
			in.problem("certificate", detail, certs.RenewHint)
		case now.Before(v.From):
			in.problem("certificate", detail, "set the clock of this machine")
		case v.RenewalDue(now):
			in.warn("certificate", detail, certs.RenewHint)
		default:
			in.ok("certificate", detail)
		}
	}
}

// journal checks the folder of the journal if it is outside of the state folder, which the machine's checks include.
func (d *doctor) journal(c *config.Config) {
	in, j := d.in(Configuration), c.Effective().GetJournal()
	switch dir := j.GetDir(); {
	case j.GetDisabled():
		in.ok("journal", "off: nothing of what passes is kept")
	case dir == "":
		in.warn("journal", "there is no folder for it: nothing of what passes is kept", "name one by journal.dir, or set HOME")
	case filepath.Dir(dir) != ownfile.StateDir(d.Env):
		d.folder(in, "journal", dir, 0o022)
		space(in, existing(dir))
	}
}

// policy checks the rule files with permd.
func (d *doctor) policy(ctx context.Context, c *config.Config) {
	in := d.in(Configuration)
	if !c.PolicySet() {
		in.warn("policy", "none: agents' commands run unasked; what an agent asks itself goes to the editor, or to who is there",
			"\"acphost run --policy workspace -- COMMAND\", or permission.policy: workspace in the configuration, asks first; "+
				"\"acphost policy show\" lists the ready policies")
		return
	}
	settings := c.Permd()
	var sidecars []string
	for name, h := range c.Effective().GetHandlers() {
		if config.Kind(name) == route.KindPermission && h.GetAddress() != "" {
			sidecars = append(sidecars, h.GetAddress())
		}
	}
	slices.Sort(sidecars)
	switch {
	case len(sidecars) > 0:
		in.ok("policy", "decided at "+strings.Join(sidecars, ", ")+" by the rules that are there; the handlers below say what is in force")
	case settings == nil:
		in.ok("policy", "a program of your own decides; permd is not asked")
	}
	if settings == nil {
		return
	}
	ctx, cancel := within(ctx, policyTimeout)
	defer cancel()
	service, stop, err := d.Permd(ctx)
	if err != nil {
		in.problem("policy", err.Error(), "put permd next to acphost: the two are built together")
		return
	}
	defer func() {
		ctx, cancel := within(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if err := stop(ctx); err != nil {
			in.warn("policy", fmt.Sprintf("permd does not stop: %v", err), "")
		}
	}()
	files, err := policytool.Layers(ctx, service, settings, d.Dir)
	if err != nil {
		in.problem("policy", err.Error(), "correct the path in the configuration, or make the file readable to you")
		return
	}
	for _, file := range files {
		d.ruleFile(ctx, service, file)
	}
}

func (d *doctor) ruleFile(ctx context.Context, service permissionv1.PolicyServiceClient, file *permissionv1.PolicyFile) {
	in := d.in(Configuration)
	checked, err := policytool.Check(ctx, service, file)
	if err != nil {
		in.problem("policy", err.Error(), "")
		return
	}
	var message strings.Builder
	checked.Print(&message, policytool.Style{})
	text, again := strings.TrimRight(message.String(), "\n"), "acphost policy check "+file.GetName()
	switch {
	case !checked.OK():
		in.problem("policy", text, "correct it; \""+again+"\" checks it again")
	case len(checked.Answer.GetFindings()) > 0:
		in.warn("policy", text, "see whether that is meant; \""+again+"\" checks it again")
	default:
		in.ok("policy", text)
	}
}

// presets checks the files that define presets, and lists the installed ones.
func (d *doctor) presets() {
	in := d.in(Configuration)
	catalog, err := preset.Load(d.Env)
	if err != nil {
		todo := ""
		if _, ok := errors.AsType[*preset.ManifestError](err); ok {
			todo = "correct the file; the format is that of the ACP registry"
		}
		in.problem("agents", err.Error(), todo)
		return
	}
	var installed []string
	for _, a := range catalog.Agents() {
		if r, err := catalog.Resolve(a.ID); err == nil && r.Found != "" {
			installed = append(installed, strings.TrimSpace(a.ID+" "+r.Installed))
		}
	}
	if len(installed) == 0 {
		in.ok("agents", "none of the agents that are known by name is installed; \"acphost agents list\" says how to get them")
		return
	}
	in.ok("agents", strings.Join(installed, ", "))
}
