package preset

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/acphost/acphost/internal/child"
)

// stopFetch is how long a fetch that is given up has to end.
const stopFetch = 5 * time.Second

// Fetch returns the agent with a Command. If it is installed, that is the agent itself; else npx is told to put the
// package into its cache, which takes the network and as long as ctx allows. What npx says goes to progress. An agent that
// nothing fetches is a *NotInstalledError.
//
// npx runs in the root folder, where no workspace has a say.
func (r *Resolved) Fetch(ctx context.Context, progress io.Writer) (*Resolved, error) {
	if len(r.Command) > 0 {
		return r, nil
	}
	if r.fetch == nil {
		return nil, &NotInstalledError{ID: r.Agent.ID, Get: r.Get}
	}
	cmd := exec.CommandContext(ctx, r.fetch[0], r.fetch[1:]...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "PWD=/")
	cmd.Stdout, cmd.Stderr = progress, progress // standard output belongs to the client
	cmd.WaitDelay = stopFetch
	ownGroup(cmd)
	err := child.Start(cmd)
	if err == nil {
		err = child.Wait(cmd)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("fetch %s with npx: %w; try it by hand: %s", r.Agent.Distribution.NPX.Package, err, r.Get)
	}
	again := &Catalog{env: r.env}
	got, err := again.resolve(r.Agent)
	if err != nil {
		return nil, err
	}
	if len(got.Command) == 0 {
		return nil, fmt.Errorf("npx fetched %s, but its command is not in %s/_npx; install it with: %s",
			r.Agent.Distribution.NPX.Package, again.npmCache(), r.Get)
	}
	return got, nil
}

// Fetches reports whether Fetch would fetch the agent from the network.
func (r *Resolved) Fetches() bool { return len(r.Command) == 0 && r.fetch != nil }
