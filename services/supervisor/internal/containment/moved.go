package containment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
)

// Bounds on how a folder that gets another name is looked at.
// moveTime is for deciding about what lies in a folder that gets another name: the sandbox waits 10 s for an answer.
const moveTime = 8 * time.Second

// moving returns the names by which all is reached that lies in a folder that gets another name: those that it has, and
// those that it will have. A rule that names one of them has to hold, too, or the folder above would be the way around
// it. There is an event for each name of a move, and both can be those of folders (RENAME_EXCHANGE).
func moving(ctx context.Context, e decisions.Asked) ([]string, error) {
	if e.Operation != sandbox.Move {
		return nil, nil
	}
	names, err := below(ctx, nil, e.Path, e.Path)
	for _, other := range e.Others {
		if err == nil {
			names, err = below(ctx, names, e.Path, other)
		}
	}
	return names, err
}

// below appends what lies in a folder, as if the folder had another name.
func below(ctx context.Context, names []string, folder, as string) ([]string, error) {
	err := filepath.WalkDir(folder, func(file string, _ fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // it has gone meanwhile, or is the name that nothing has yet
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("there is too much in %s to decide about another name for it: give one to what lies in it", folder)
		}
		if rest, ok := strings.CutPrefix(file, folder); ok && rest != "" {
			names = append(names, as+rest)
		}
		return nil
	})
	return names, err
}

// decideMoved is decideKernel for an event that may give a folder another name: the strictest decision counts, about
// the folder and about all that lies in it. If reads are decided on, so is that: what may not be read must not be by
// another name.
func (d *Decider) decideMoved(ctx context.Context, e *event, sessionID string) (Try, error) {
	worst, err := d.decideKernel(ctx, e, sessionID)
	for _, name := range e.below {
		for _, op := range d.inMoved() {
			if err != nil || worst.Decision.Verdict == gate.Deny {
				return worst, err
			}
			if ctx.Err() != nil {
				return worst, fmt.Errorf("there is too much in %s to decide about another name for it: give one to what lies in it", e.Path)
			}
			file := *e
			file.Path, file.Operation = name, op
			file.kept = changes(op) && d.sandbox.Mine.Keeps(name, false)
			file.lenient = e.within || file.kept || d.isOwn(name) || op == sandbox.Read
			var o Try
			if o, err = d.decideKernel(ctx, &file, sessionID); err == nil && o.Decision.Verdict != gate.Allow && (o.Decision.Verdict == gate.Deny || worst.Decision.Verdict == gate.Allow) {
				worst = o
			}
		}
	}
	return worst, err
}

// inMoved is what is decided about each file in a folder that gets another name.
func (d *Decider) inMoved() []sandbox.Operation {
	if d.sandbox.How.Reads {
		return []sandbox.Operation{sandbox.Write, sandbox.Read}
	}
	return []sandbox.Operation{sandbox.Write}
}
