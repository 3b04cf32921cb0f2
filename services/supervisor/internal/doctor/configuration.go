package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/ownfile"
	"github.com/acphost/acphost/services/supervisor/internal/policytool"
	"github.com/acphost/acphost/services/supervisor/internal/preset"
)

const (
	policyTimeout = 30 * time.Second
	stopTimeout   = 10 * time.Second
)

// configuration looks at the configuration file and at the files that it names. It returns nil if nothing can be started by
// it.
func (d *doctor) configuration(ctx context.Context) *config.Config {
	in := d.in(Configuration)
	c, err := config.Load(d.ConfigFile, d.Env)
	if err != nil {
		in.problem("file", err.Error(), "correct it; \"acphost config check\" checks it again")
		return nil
	}
	file := c.File
	if file == "" {
		file = "none, the defaults count"
	}
	if err := c.CheckFiles(d.HandlerDir); err != nil {
		in.problem("file", err.Error(), "correct the paths, or put the files there; acphost's own programs stand next to acphost")
		return nil
	}
	in.ok("file", file)
	for _, warning := range c.Warnings {
		in.warn("file", warning, "")
	}
	d.policy(ctx, c)
	d.journal(c)
	d.presets()
	return c
}

// journal looks at the folder of the record where it is not below the state folder, which is looked at with the machine.
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

// policy has permd read the rule files.
func (d *doctor) policy(ctx context.Context, c *config.Config) {
	in := d.in(Configuration)
	if !c.PolicySet() {
		in.ok("policy", "none: every question goes to the editor")
		return
	}
	settings := c.Permd()
	if settings == nil {
		in.ok("policy", "a program of your own decides; permd is not asked")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, policyTimeout)
	defer cancel()
	service, stop, err := d.Permd(ctx)
	if err != nil {
		in.problem("policy", err.Error(), "put permd next to acphost: the two are built together")
		return
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
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
	var said strings.Builder
	checked.Print(&said, policytool.Style{})
	text, again := strings.TrimRight(said.String(), "\n"), "acphost policy check "+file.GetName()
	switch {
	case !checked.OK():
		in.problem("policy", text, "correct it; \""+again+"\" checks it again")
	case len(checked.Answer.GetFindings()) > 0:
		in.warn("policy", text, "see whether that is meant; \""+again+"\" checks it again")
	default:
		in.ok("policy", text)
	}
}

// presets looks at the files that name agents, and which of those are installed.
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
