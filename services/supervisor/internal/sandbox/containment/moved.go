package containment

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

// moveTime limits the decision about the files in a folder that is renamed. The sandbox waits 10 s for an answer.
const moveTime = 8 * time.Second

// maxMovedBytes limits the names of the files in a folder that is renamed, in bytes. A process can make names of 4 KiB.
const maxMovedBytes = 32 << 20

// movedNames returns the old and the new names of all files in a folder that is renamed. A rule that names one of the
// files has to apply too; otherwise renaming the folder would bypass it. There is an event for each name of a move, and
// both can name folders (RENAME_EXCHANGE).
//
// A rename that has been made (Asked.Made) is decided once more, because another process may have put files into the
// folder meanwhile. If the folder has the names that were decided, movedNames returns none.
func (r *renames) movedNames(ctx context.Context, e decisions.Asked) ([]movedName, error) {
	if e.Operation != sandbox.Move {
		return nil, nil
	}
	m := movedFolder{path: e.Path, room: maxMovedBytes}
	err := m.addNames(ctx, e.Path)
	if err == nil && r.sameAsDecided(e, m.digest()) {
		return nil, nil
	}
	for _, other := range e.Others {
		if err == nil {
			err = m.addNames(ctx, other)
		}
	}
	return m.names, err
}

// maxRenames limits the renames that are remembered between their two decisions.
const maxRenames = 256

// renames remembers which names folders had when their renames were decided. The zero value is ready. It is safe for
// concurrent use.
type renames struct {
	mu      sync.Mutex
	decided map[rename][sha256.Size]byte
}

// rename is one of the two names of a rename.
type rename struct {
	pid  int
	call uint64
	path string
}

// sameAsDecided reports whether a rename has been made, and the names in its folder, by their digest, are those that
// were decided. Before the rename is made, it remembers them.
func (r *renames) sameAsDecided(e decisions.Asked, names [sha256.Size]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !e.Made {
		if len(r.decided) >= maxRenames || r.decided == nil {
			r.decided = map[rename][sha256.Size]byte{}
		}
		r.decided[rename{e.PID, e.Call, e.Path}] = names
		return false
	}
	if len(e.Others) != 1 {
		return false
	}
	key := rename{e.PID, e.Call, e.Others[0]} // what the path has now was there
	was, known := r.decided[key]
	delete(r.decided, key)
	return known && was == names
}

// movedName is an old or a new name of a file.
type movedName struct {
	path string
	link bool // a symbolic link
}

// movedFolder collects the names of the files in a folder that is renamed.
type movedFolder struct {
	path  string
	names []movedName
	room  int // for further names, in bytes
}

// addNames adds the files in the folder, as if the folder had the name as.
func (m *movedFolder) addNames(ctx context.Context, as string) error {
	return filepath.WalkDir(m.path, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was removed meanwhile, or is the new name, which does not exist yet
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil || m.room < 0:
			return errTooMuch(m.path)
		}
		if rest, ok := strings.CutPrefix(file, m.path); ok && rest != "" {
			m.names = append(m.names, movedName{as + rest, entry.Type()&fs.ModeSymlink != 0})
			m.room -= len(as) + len(rest)
		}
		return nil
	})
}

// digest identifies the names that were added, as names in the folder.
func (m *movedFolder) digest() [sha256.Size]byte {
	h := sha256.New()
	for _, name := range m.names {
		fmt.Fprintf(h, "%q %t\n", strings.TrimPrefix(name.path, m.path), name.link)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func errTooMuch(folder string) error {
	return fmt.Errorf("too many files are in %s to decide about a new name for it: rename the files in it", folder)
}

// decideMoved decides an event, and for a folder that is renamed also all files in it. The strictest decision counts.
// If reads are decided, reads of these files are decided as well: a file that may not be read must not become readable
// by another name.
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
				return worst, errTooMuch(e.Path)
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
