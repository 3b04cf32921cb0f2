// Package heat computes which files an agent works with in a session, and how much: a file is hot while the agent has
// it in its context, and cools down after that.
//
// It is told what happens, with times, and computes heat when somebody asks: it has no clock and no goroutine. It must not know
// where its facts come from.
package heat

import (
	"cmp"
	"math"
	"slices"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/ordered"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// MaxFiles bounds the files of a session; of more, those are forgotten that were used the longest time ago.
	MaxFiles = 10_000
	// MaxSize bounds what they take, in bytes, likewise.
	MaxSize = 4 << 20
	// MaxPath bounds a path, in bytes; files with longer ones are not kept.
	MaxPath = 4096

	// keptTurns is how many turns a file stays in the context without being used.
	keptTurns = 3
	// Behind the context, what is left of a file's heat after each tick, and the heat from which on it is cold.
	perTick = 0.95
	cold    = 0.01
	// How long a tick is while a turn runs, and while none does.
	busyTick = 100 * time.Millisecond
	idleTick = 500 * time.Millisecond

	// fileSize is what a file counts for beside its path, in bytes.
	fileSize = 320
)

// Files are those of a session. The zero value has none. Not safe for concurrent use. Times are expected in their order.
type Files struct {
	known ordered.Map[string, *File] // the one that was used last is the newest
	cools ordered.Map[string, *File] // of them, those that are not in the context; the one that left it last is the newest
	size  int

	inContext int    // how many are
	changes   uint64 // so far
	forgotten uint64 // the last change that forgot a file

	turn  uint64
	used  uint64 // the highest fill level of the context since files left it
	ticks ticks
}

// File is a file that was used.
type File struct {
	// Reads and Writes count calls of handlers, Reported tool calls.
	Reads, Writes, Reported uint32

	refusals uint32

	action    supervisorv1.FileAction
	refused   supervisorv1.FileAction
	turn      uint64
	at        time.Time
	inContext bool
	left      float64 // when it left the context, in ticks
	usedBy    uint64  // which change used it last
	leftBy    uint64  // which change took it out of the context
}

// Mark is how much a watcher of Files knows. The zero value: nothing.
type Mark struct {
	changes uint64
	ticks   float64
}

// Change is what is new for a watcher of Files.
type Change struct {
	// Whole: Files are all that are not cold, and no others are. Else they are those that look different now.
	Whole bool
	// Files have the hottest first, then the one that was used last.
	Files []*supervisorv1.TouchedFile
	// Cold are paths of files that have gone cold. The watcher may not know all of them.
	Cold []string
	// Cooling: some files will change by themselves. Warm: some are not cold.
	Cooling, Warm bool
	// Mark is for the next time.
	Mark Mark
}

// ticks is a clock whose pace depends on whether a turn runs.
type ticks struct {
	passed float64 // until since
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

// Turn begins a turn, or ends it. Files that were not used for more than three turns leave the context.
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

// Filled says how many tokens are in the agent's context. If only half of them are left, what was in it is taken to be gone.
func (f *Files) Filled(now time.Time, used uint64) {
	if used > f.used/2 || f.used == 0 {
		f.used = max(f.used, used)
		return
	}
	f.used = used
	f.Leave(now)
}

// Stop says that the agent has lost its context, and that no turn of its runs.
func (f *Files) Stop(now time.Time) {
	f.ticks.pace(now, false)
	f.used = 0
	f.Leave(now)
}

// Leave takes all files out of the context.
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

// Touch uses a file. One that was refused is hot, but not in the context, unless it was there before.
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

// File returns a file, made the latest, for its counts. One whose path is empty, or too long, is not kept.
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

// Size is roughly what the files take, in bytes.
func (f *Files) Size() int { return f.size }

// heat is how hot a file is after so many ticks.
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

// percent is a heat as people are shown it.
func percent(heat float64) int { return int(math.Round(100 * heat)) }

// Latest are the last files that were used, at most so many, the latest last.
func (f *Files) Latest(now time.Time, most int) []*supervisorv1.TouchedFile {
	var out []*supervisorv1.TouchedFile
	skip := f.known.Len() - most
	for path, file := range f.known.All() {
		if skip--; skip < 0 {
			out = append(out, f.shown(path, file, now))
		}
	}
	return out
}

// Hot are the files that are not cold, the hottest first, then the one that was used last.
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

// Since is what has changed since a mark. It takes as long as that is much: files that stay as they are cost nothing. One that
// cools down counts as changed when it has lost a hundredth, as shown.
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
		if file.leftBy <= m.changes && was == 0 { // so were those before it
			break
		}
		if file.usedBy <= m.changes && (file.leftBy > m.changes || percent(was) != percent(file.heat(ticks))) {
			tell(path, file)
		}
	}
	hottestFirst(c.Files)
	return c
}

// newestCooling is the file that left the context last; nil: none is outside.
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
