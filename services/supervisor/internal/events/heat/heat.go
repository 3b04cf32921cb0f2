// Package heat computes which files an agent works with in a session, and how much: a file is hot while the agent has
// it in its context, and cools down after that.
//
// The caller reports events with times, and heat is computed on demand: the package has no clock and no goroutine. It
// must not know the sources of the events.
package heat

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/acphost/acphost/internal/ordered"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// MaxFiles is the limit of the files of a session; the least recently used ones are dropped.
	MaxFiles = 10_000
	// MaxSize is the limit of their size, in bytes, in the same way.
	MaxSize = 4 << 20
	// MaxPath is the limit of a path, in bytes; files with longer paths are not kept.
	MaxPath = 4096

	// keptTurns is the number of turns for which an unused file stays in the context.
	keptTurns = 3
	// After a file has left the context: the fraction of its heat that is left after each tick, and the heat below
	// which it is cold.
	perTick = 0.95
	cold    = 0.01
	// The length of a tick while a turn is active, and otherwise.
	busyTick = 100 * time.Millisecond
	idleTick = 500 * time.Millisecond

	// fileSize is the assumed size of a file in addition to its path, in bytes.
	fileSize = 320
)

// Files are the files of a session. The zero value is empty. Not safe for concurrent use. Times must be in order.
type Files struct {
	known ordered.Map[string, *File] // the most recently used one is the newest
	cools ordered.Map[string, *File] // those outside of the context; the one that left it last is the newest
	size  int

	inContext int    // number of files in the context
	changes   uint64 // number of changes
	forgotten uint64 // the last change that dropped a file

	turn  uint64
	used  uint64 // the highest usage of the context since files left it
	ticks ticks
}

// File is a file that was used.
type File struct {
	// Reads and Writes count calls of handlers, Reported counts tool calls.
	Reads, Writes, Reported uint32

	refusals uint32

	action    supervisorv1.FileAction
	refused   supervisorv1.FileAction
	turn      uint64
	at        time.Time
	inContext bool
	left      float64 // when it left the context, in ticks
	usedBy    uint64  // the change that used it last
	leftBy    uint64  // the change that removed it from the context
}

// Mark is the position of a watcher of Files. The zero value: it has received nothing.
type Mark struct {
	changes uint64
	ticks   float64
}

// Change has the changes for a watcher of Files.
type Change struct {
	// Whole: Files has all files that are not cold. Otherwise it has those that changed.
	Whole bool
	// Files are sorted by heat, the hottest first, then by the last use.
	Files []*supervisorv1.TouchedFile
	// Cold are paths of files that became cold. The watcher may not know all of them.
	Cold []string
	// Cooling: some files will change with time. Warm: some are not cold.
	Cooling, Warm bool
	// Mark is the mark for the next call.
	Mark Mark
}

// ticks is a clock whose speed depends on whether a turn is active.
type ticks struct {
	passed float64 // ticks until since
	since  time.Time
	busy   bool
}

func (t *ticks) at(now time.Time) float64 {
	if t.since.IsZero() || !now.After(t.since) {
		return t.passed
	}
	tick := idleTick
	if t.busy {
		tick = busyTick
	}
	return t.passed + float64(now.Sub(t.since))/float64(tick)
}

func (t *ticks) pace(now time.Time, busy bool) {
	t.passed = t.at(now)
	t.since, t.busy = now, busy
}

// Turn begins or ends a turn. Files that were not used for more than three turns leave the context.
func (f *Files) Turn(now time.Time, begins bool) {
	f.ticks.pace(now, begins)
	if !begins {
		return
	}
	f.turn++
	for path, file := range f.known.All() {
		if f.turn > file.turn+keptTurns {
			f.leave(path, file, now)
		}
	}
}

// Filled sets the number of tokens in the agent's context. If it falls to half, all files leave the context.
func (f *Files) Filled(now time.Time, used uint64) {
	if used > f.used/2 || f.used == 0 {
		f.used = max(f.used, used)
		return
	}
	f.used = used
	f.Leave(now)
}

// Stop ends the turn and removes all files from the context, which the agent has lost.
func (f *Files) Stop(now time.Time) {
	f.ticks.pace(now, false)
	f.used = 0
	f.Leave(now)
}

// Leave removes all files from the context.
func (f *Files) Leave(now time.Time) {
	for path, file := range f.known.All() {
		f.leave(path, file, now)
	}
}

func (f *Files) leave(path string, file *File, now time.Time) {
	if !file.inContext {
		return
	}
	if f.ticks.since.IsZero() {
		f.ticks.since = now
	}
	f.changes++
	f.inContext--
	file.inContext, file.left, file.leftBy = false, f.ticks.at(now), f.changes
	f.cools.Set(path, file)
}

// Touch records the use of a file. A refused file is hot, but does not enter the context.
func (f *Files) Touch(now time.Time, touch *supervisorv1.FileTouch) {
	path := touch.GetPath()
	if !kept(path) {
		return
	}
	file := f.File(path)
	was := file.inContext
	file.action, file.refused, file.turn, file.at, file.inContext = touch.GetAction(), touch.GetRefused(), f.turn, now, true
	f.cools.Delete(path)
	if !was {
		f.inContext++
	}
	if file.action != supervisorv1.FileAction_FILE_ACTION_BLOCKED {
		return
	}
	file.refusals++
	if !was {
		f.leave(path, file, now)
	}
}

// File returns a file for its counts, and makes it the latest. A file with an empty or too long path is not kept.
func (f *Files) File(path string) *File {
	if !kept(path) {
		return &File{}
	}
	f.changes++
	if at := f.known.At(path); at != nil {
		f.known.Renew(path)
		at.usedBy = f.changes
		return at
	}
	made := &File{usedBy: f.changes}
	f.known.Set(path, made)
	f.size += len(path) + fileSize
	for f.known.Len() > MaxFiles || f.size > MaxSize {
		oldest := f.known.Oldest()
		if f.known.Delete(oldest).inContext {
			f.inContext--
		}
		f.cools.Delete(oldest)
		f.forgotten = f.changes
		f.size -= len(oldest) + fileSize
	}
	return made
}

func kept(path string) bool { return path != "" && len(path) <= MaxPath }

// Size returns the approximate size of the files, in bytes.
func (f *Files) Size() int { return f.size }

// heat returns the heat of a file after a number of ticks.
func (file *File) heat(ticks float64) float64 {
	if file.inContext {
		return 1
	}
	if file.action == supervisorv1.FileAction_FILE_ACTION_UNSPECIFIED {
		return 0
	}
	if h := math.Pow(perTick, math.Floor(ticks-file.left)); h > cold {
		return h
	}
	return 0
}

// percent returns a heat in percent, for people.
func percent(heat float64) int { return int(math.Round(100 * heat)) }

// Latest returns the most recently used files, at most limit of them, the latest last.
func (f *Files) Latest(now time.Time, limit int) []*supervisorv1.TouchedFile {
	var out []*supervisorv1.TouchedFile
	skip := f.known.Len() - limit
	for path, file := range f.known.All() {
		if skip--; skip < 0 {
			out = append(out, f.shown(path, file, now))
		}
	}
	return out
}

// Hot returns the files that are not cold, the hottest first, then by the last use.
func (f *Files) Hot(now time.Time) []*supervisorv1.TouchedFile {
	var out []*supervisorv1.TouchedFile
	ticks := f.ticks.at(now)
	for path, file := range f.known.Backward() {
		if file.heat(ticks) > 0 {
			out = append(out, f.shown(path, file, now))
		}
	}
	hottestFirst(out)
	return out
}

func hottestFirst(files []*supervisorv1.TouchedFile) {
	slices.SortStableFunc(files, func(a, b *supervisorv1.TouchedFile) int { return cmp.Compare(b.GetHeat(), a.GetHeat()) })
}

// Since returns the changes since a mark. Its duration depends on the number of changes: unchanged files cost nothing.
// A file that cools down counts as changed when its heat has decreased by one percent.
func (f *Files) Since(m Mark, now time.Time) Change {
	ticks := f.ticks.at(now)
	c := Change{Mark: Mark{f.changes, ticks}}
	if newest := f.newestCooling(); newest != nil {
		c.Cooling = newest.heat(ticks) > 0
	}
	c.Warm = c.Cooling || f.inContext > 0
	if m == (Mark{}) || f.forgotten > m.changes {
		c.Whole, c.Files = true, f.Hot(now)
		return c
	}
	tell := func(path string, file *File) {
		if file.heat(ticks) > 0 {
			c.Files = append(c.Files, f.shown(path, file, now))
		} else {
			c.Cold = append(c.Cold, path)
		}
	}
	for path, file := range f.known.Backward() {
		if file.usedBy <= m.changes {
			break
		}
		tell(path, file)
	}
	for path, file := range f.cools.Backward() {
		was := file.heat(m.ticks)
		if file.leftBy <= m.changes && was == 0 { // the earlier ones were cold, too
			break
		}
		if file.usedBy <= m.changes && (file.leftBy > m.changes || percent(was) != percent(file.heat(ticks))) {
			tell(path, file)
		}
	}
	hottestFirst(c.Files)
	return c
}

// newestCooling returns the file that left the context last; nil if none exists.
func (f *Files) newestCooling() *File {
	for _, file := range f.cools.Backward() {
		return file
	}
	return nil
}

func (f *Files) shown(path string, file *File, now time.Time) *supervisorv1.TouchedFile {
	t := &supervisorv1.TouchedFile{
		Path: path, Reads: file.Reads, Writes: file.Writes, Reported: file.Reported, Refusals: file.refusals,
		Action: file.action, Refused: file.refused, Turn: file.turn, InContext: file.inContext, Heat: file.heat(f.ticks.at(now)),
	}
	if !file.at.IsZero() {
		t.Time = timestamppb.New(file.at)
	}
	return t
}
