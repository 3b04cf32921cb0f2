package containment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
)

// moveTime limits the decision about the files in a folder that is renamed. The sandbox waits 10 s for an answer.
const moveTime = 8 * time.Second

// movedNames returns the old and the new names of all files in a folder that is renamed. A rule that names one of the files has to apply
// too; otherwise renaming the folder would bypass it. There is an event for each name of a move, and both can name folders
// (RENAME_EXCHANGE).
func movedNames(ctx context.Context, e decisions.Asked) ([]movedName, error) {
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

// movedName is an old or a new name of a file.
type movedName struct {
	path string
	link bool // a symbolic link
}

// below appends the files in a folder, as if the folder had the name as.
func below(ctx context.Context, names []movedName, folder, as string) ([]movedName, error) {
	err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile, or is the new name, which does not exist yet
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("there is too much in %s to decide about another name for it: give one to what lies in it", folder)
		}
		if rest, ok := strings.CutPrefix(file, folder); ok && rest != "" {
			names = append(names, movedName{as + rest, entry.Type()&fs.ModeSymlink != 0})
		}
		return nil
	})
	return names, err
}

// decideMoved decides an event, and for a folder that is renamed also all files in it. The strictest decision counts. If reads are decided,
// reads of these files are decided as well: a file that may not be read must not become readable by another name.
func (d *Decider) decideMoved(ctx context.Context, e *event, sessionID string) (Try, error) {
	worst, err := d.decideInSession(ctx, e, sessionID)
	asWhole := len(e.below) > 0 && d.gitMeaningOf(e).state // git's meaning of all files in the folder is decided
	for _, moved := range e.below {
		name := moved.path
		for _, op := range d.movedOperations() {
			if err != nil || worst.Decision.Verdict == gate.Deny {
				return worst, err
			}
			if ctx.Err() != nil {
				return worst, fmt.Errorf("there is too much in %s to decide about another name for it: give one to what lies in it", e.Path)
			}
			file := *e
			file.Path, file.Operation, file.Others, file.Placed = name, op, nil, false
			if moved.link {
				file.Leaves = sandbox.LeavesLink
			}
			file.movesAlong = asWhole || movesRepository(e.Path, name) || slices.ContainsFunc(e.Others, func(other string) bool { return movesRepository(other, name) })
			file.kept = changes(op) && d.sandbox.Mine.Keeps(name, false)
			file.covered = file.coveredBy(e.line, op, name)
			var o Try
			if o, err = d.decideInSession(ctx, &file, sessionID); err == nil && o.Decision.Verdict != gate.Allow && (o.Decision.Verdict == gate.Deny || worst.Decision.Verdict == gate.Allow) {
				worst = o
			}
		}
	}
	return worst, err
}

// movedOperations returns the operations that are decided for each file in a folder that is renamed.
func (d *Decider) movedOperations() []sandbox.Operation {
	if d.sandbox.How.Reads {
		return []sandbox.Operation{sandbox.Write, sandbox.Read}
	}
	return []sandbox.Operation{sandbox.Write}
}
