// Package journal records the messages between a client, an agent and the handlers: one file of JSON lines for each session,
// in the order in which the messages passed. Lines are appended and never changed.
//
// The journal does not hold up messages. A frame is copied into a bounded queue, and a goroutine of the journal writes it. If
// a frame does not fit into the queue, or cannot be written, the journal counts it, and writes the count where the frame is
// missing.
//
// The package knows frames and files. It decides nothing. It records frames as they are, though an agent wrote them and may be
// hostile. The caller has taken secrets out of them (package secret), so that a replay shows what the live events showed.
package journal

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
)

const (
	// DefaultMaxSessionBytes is the size up to which the file of one session grows.
	DefaultMaxSessionBytes = 512 << 20
	// DefaultMaxAge is how long files are kept.
	DefaultMaxAge = 30 * 24 * time.Hour
	// DefaultMaxTotal is how many bytes all files may have together.
	DefaultMaxTotal = 1 << 30
	// DefaultMaxQueued bounds the bytes that wait to be written.
	DefaultMaxQueued = 16 << 20

	// linger is how long the writer lets frames gather: a process that is killed loses no more than that.
	linger = 5 * time.Millisecond
	// The writer takes share of what all processors have, and never more than most of one: after it has worked for atATime
	// it rests, restMost at most, since what it waited for the disk is no work. Where the queue has overflowed meanwhile, it
	// cannot keep up anyhow, and rests longer.
	share     = 0.15
	most      = 0.9
	atATime   = 2 * time.Millisecond
	restMost  = 20 * time.Millisecond
	floodRest = 5 // times as long, and as long at most
	// sayAgain is how long after a loss was logged another one is.
	sayAgain = time.Minute
	// idle is how long nothing must happen until memory is given back.
	idle = time.Second
	// retainEvery is how often old files are looked for.
	retainEvery = time.Hour
	// retainFirst is when they are looked for at first: not while an agent starts.
	retainFirst = 10 * time.Second
)

// Options say what is kept, and where. Zero stands for the default.
type Options struct {
	// Dir is an absolute path. Required. Several supervisors share it.
	Dir string
	// Agent is the name of the agent whose frames do not say whose they are, Version the supervisor's.
	Agent, Version string
	// Instance tells this supervisor from all others. Empty: it is made up.
	Instance string
	// Content: frames are kept whole. Else only what they are about: method, ids, kinds and sizes.
	Content bool
	// LateUpdates says in each file that a turn ends with frame.MethodTurnEnded, not with the answer to the prompt.
	LateUpdates bool
	// MaxSessionBytes bounds a session's file. What comes after is counted, not kept.
	MaxSessionBytes int64
	// MaxAge and MaxTotal say which files go, the oldest first; those of sessions that are still written stay.
	MaxAge   time.Duration
	MaxTotal int64
	// MaxQueued bounds the bytes that wait to be written; requests and answers may use a quarter more.
	MaxQueued int
	// Logger is told what is lost, once each time it begins. Nil: nobody is.
	Logger *slog.Logger
	// Failing is called each time that writing begins to fail, by the goroutine that writes: it must not wait. Nil: nobody is.
	Failing func(file string, err error)
	// Index brings the index of Dir up to date. It is called after old files were removed, and may take long. Nil: there is none.
	Index func(dir string) error
	// Now is the clock. Nil: the system's.
	Now func() time.Time
}

// Journal takes frames. Safe for concurrent use.
type Journal struct {
	opts   Options
	queue  *queue
	stop   chan struct{}
	once   sync.Once
	wg     sync.WaitGroup
	writer *writer
	ended  chan struct{} // all is written that will be
}

// Open makes the folder if it is missing and starts the journal. It is an error if the folder is another user's or
// others can write to it.
func Open(o Options) (*Journal, error) {
	if !filepath.IsAbs(o.Dir) {
		return nil, fmt.Errorf("journal: the folder %q is not an absolute path", o.Dir)
	}
	o.MaxSessionBytes = cmp.Or(o.MaxSessionBytes, DefaultMaxSessionBytes)
	o.MaxAge = cmp.Or(o.MaxAge, DefaultMaxAge)
	o.MaxTotal = cmp.Or(o.MaxTotal, DefaultMaxTotal)
	o.MaxQueued = cmp.Or(o.MaxQueued, DefaultMaxQueued)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := MakeDir(o.Dir); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if o.Instance == "" {
		var instance [8]byte
		_, _ = rand.Read(instance[:]) // never fails: see crypto/rand
		o.Instance = hex.EncodeToString(instance[:])
	}
	j := &Journal{opts: o, queue: newQueue(o.MaxQueued, o.Content), stop: make(chan struct{}), ended: make(chan struct{})}
	j.writer = newWriter(o, &j.queue.marks)
	j.wg.Go(j.keepWriting)
	j.wg.Go(j.maintain)
	return j, nil
}

// MakeDir makes a journal's folder if it is missing. It is an error if others can write to the folder.
func MakeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", dir)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others can write to the folder %s (mode %v); run \"chmod go-w\" on it", dir, info.Mode().Perm())
	}
	return nil
}

// Frame takes a frame. It copies the bytes, waits for nothing and cannot fail: what does not fit is counted.
func (j *Journal) Frame(f frame.Frame) { j.Add(&f) }

// Add is Frame for a caller that has a pointer to the frame.
func (j *Journal) Add(f *frame.Frame) { j.queue.put(f, j.opts.Now) }

// Dir is the folder.
func (j *Journal) Dir() string { return j.opts.Dir }

// Content reports whether frames are kept whole.
func (j *Journal) Content() bool { return j.opts.Content }

// Unwritten returns how many frames of a session could not be written and are not counted in its file yet, and the number
// of the last of these frames.
func (j *Journal) Unwritten(agentID, session string) (frames, last uint64) {
	j.writer.unsaidMu.Lock()
	defer j.writer.unsaidMu.Unlock()
	lacks := j.writer.unsaid[fileKey{agentID, session}]
	return lacks.frames, lacks.last
}

// Flush waits until the frames that were handed over before the call are in their files, or counted there. If ctx ends
// first, the error is ctx's.
func (j *Journal) Flush(ctx context.Context) error {
	written := make(chan struct{})
	j.queue.mark(written)
	select {
	case <-written:
	case <-j.ended:
	case <-ctx.Done():
		return fmt.Errorf("wait for the journal to be written: %w", ctx.Err())
	}
	return nil
}

// Dropped returns how many frames found no room in the queue.
func (j *Journal) Dropped() uint64 {
	j.queue.mu.Lock()
	defer j.queue.mu.Unlock()
	return j.queue.dropped
}

// Close writes what is queued and closes the files. Frames that come later are not kept.
func (j *Journal) Close() error {
	j.once.Do(func() {
		j.queue.close()
		close(j.stop)
	})
	j.wg.Wait()
	return j.writer.failed
}

// keepWriting writes until Close. A panic loses the frames at hand, and the writing goes on with those that come later.
func (j *Journal) keepWriting() {
	defer close(j.ended)
	for over := false; !over; {
		panicked := panics.Catch(j.opts.Logger, "writing the journal", func() error { j.write(); return nil })
		select {
		case <-j.stop:
			over = true
		default:
			over = panicked == nil
		}
	}
}

// write is the goroutine that writes. It leaves most of its time to others, however much there is to write: in a flood, a
// journal that lacks frames is better than one that slows the agent down.
func (j *Journal) write() {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	pause := func(d time.Duration) {
		timer.Reset(d)
		select {
		case <-timer.C:
		case <-j.stop:
		}
	}
	var flood flood
	rest := func(worked time.Duration) {
		d := restAfter(worked)
		if flood.goesOn(j) {
			d *= floodRest
		}
		if j.queue.marks.Load() > 0 { // somebody waits
			return
		}
		pause(max(d, linger)) // frames gather again: few at a time cost much
	}
	var b batch
	for open := true; open; {
		timer.Reset(idle)
		select {
		case <-j.queue.wake:
			pause(linger)
		case <-timer.C:
			j.queue.rest()
			j.writer.rest()
			continue
		case <-j.stop:
			open = false
		}
		for {
			b = j.queue.take(b)
			if len(b.blocks) == 0 {
				break
			}
			began := time.Now()
			for _, records := range b.blocks {
				for len(records) > 0 {
					records = records[j.writer.batch(records, j.queue.written):]
					if worked := time.Since(began); worked > atATime {
						j.writer.writeGathered(j.queue.written)
						rest(worked)
						began = time.Now()
					}
				}
			}
			j.writer.writeGathered(j.queue.written)
			b = j.queue.give(b)
			rest(time.Since(began))
		}
	}
	j.writer.close()
}

// flood is a time in which there is more than can be written.
type flood struct {
	dropped uint64    // frames that found no room, when it was looked at last
	said    time.Time // when it was logged last: not by those whose frames find no room, who must not wait for the log
}

// goesOn reports whether frames found no room since it was asked last.
func (f *flood) goesOn(j *Journal) bool {
	n := j.Dropped()
	if n == f.dropped {
		return false
	}
	f.dropped = n
	if f.said.IsZero() || time.Since(f.said) >= sayAgain {
		f.said = time.Now()
		j.opts.Logger.Warn("the journal cannot keep up; what it leaves out it counts, and says where", "frames", n, "limit", j.opts.MaxQueued)
	}
	return true
}

// restAfter is how long the writer rests after it has worked.
func restAfter(worked time.Duration) time.Duration {
	duty := min(most, share*float64(runtime.GOMAXPROCS(0)))
	return min(restMost, time.Duration(float64(worked)*(1/duty-1)))
}

// maintain removes old files, and mends those that a crash has torn.
func (j *Journal) maintain() {
	timer := time.NewTimer(retainFirst)
	defer timer.Stop()
	for {
		select {
		case <-j.stop:
			return
		case <-timer.C:
		}
		if err := panics.Catch(j.opts.Logger, "tidying the journal", j.tidy); err != nil {
			j.opts.Logger.Warn("old journals could not all be seen to", "error", err)
		}
		timer.Reset(retainEvery)
	}
}

// tidy mends files, removes old ones, and brings the index up to date.
func (j *Journal) tidy() error {
	mended, err := Mend(j.opts.Dir)
	if mended > 0 {
		j.opts.Logger.Info("journals that a crash had torn were mended", "files", mended)
	}
	err = errors.Join(err, Retain(j.opts.Dir, j.opts.MaxAge, j.opts.MaxTotal, j.opts.Now()))
	if j.opts.Index != nil {
		err = errors.Join(err, j.opts.Index(j.opts.Dir))
	}
	return err
}
