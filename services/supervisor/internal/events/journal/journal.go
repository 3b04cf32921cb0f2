// Package journal records the messages between a client, an agent and the handlers: one file of JSON lines for each
// session, in the order in which the messages passed. Lines are appended and never changed.
//
// The journal does not delay messages. A frame is copied into a bounded queue, and a goroutine of the journal writes
// it. If a frame does not fit into the queue, or cannot be written, the journal counts it, and writes the count at the
// position of the missing frames.
//
// The package knows frames and files. It decides nothing. It records frames unchanged; they are from an agent, which
// may be hostile. The caller has removed secrets (package secret), so that a replay shows the same as the live events.
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
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
)

const (
	// DefaultMaxSessionBytes is the size limit of a session's file.
	DefaultMaxSessionBytes = 512 << 20
	// DefaultMaxAge is how long files are kept.
	DefaultMaxAge = 30 * 24 * time.Hour
	// DefaultMaxTotal is the limit of all files together, in bytes.
	DefaultMaxTotal = 1 << 30
	// DefaultMaxQueued is the limit of bytes in the queue.
	DefaultMaxQueued = 16 << 20

	// linger is how long the writer collects frames before a write. A process that is killed loses at most the frames
	// of that time.
	linger = 5 * time.Millisecond
	// The writer uses the fraction share of all processors' time, and never more than most of one: after it has worked
	// for atATime it pauses, for restMost at most, because waiting for the disk is not work. If the queue has
	// overflowed, the writer cannot keep up in any case, and pauses longer.
	share     = 0.15
	most      = 0.9
	atATime   = 2 * time.Millisecond
	restMost  = 20 * time.Millisecond
	floodRest = 5 // the factor of the pause and of its limit in a flood
	// logInterval is the minimum time between two logged losses.
	logInterval = time.Minute
	// idle is how long the writer waits without frames until it releases memory.
	idle = time.Second
	// retainEvery is the interval for removing old files.
	retainEvery = time.Hour
	// retainFirst is the delay of the first removal, so that it does not slow the start of an agent.
	retainFirst = 10 * time.Second
)

// Options configure a journal. Zero values are the defaults.
type Options struct {
	// Dir is an absolute path. Required. Several supervisors share it.
	Dir string
	// Agent is the agent's name for frames without one, Version the supervisor's version.
	Agent, Version string
	// Instance identifies this supervisor. Empty: a random value.
	Instance string
	// Content reports whether frames are recorded completely. Otherwise only their metadata is: method, ids, kinds and
	// sizes.
	Content bool
	// LateUpdates is recorded in each file: a turn ends with frame.MethodTurnEnded, not with the answer to the prompt.
	LateUpdates bool
	// MaxSessionBytes limits a session's file. Later frames are counted, not recorded.
	MaxSessionBytes int64
	// MaxAge and MaxTotal limit the files that are kept; the oldest are removed first, except files that are being
	// written.
	MaxAge   time.Duration
	MaxTotal int64
	// MaxQueued limits the bytes in the queue; requests and answers may use a quarter more.
	MaxQueued int
	// Logger logs losses, once for each period. Nil: nothing is logged.
	Logger *slog.Logger
	// Failing is called by the writing goroutine each time that writing begins to fail. It must not block. Nil: not
	// called.
	Failing func(file string, err error)
	// Index updates the index of Dir. It is called after old files were removed, and may take long. Nil: there is no
	// index.
	Index func(dir string) error
	// Now is the clock. Nil: the system's.
	Now func() time.Time
}

// Journal records frames. Safe for concurrent use.
type Journal struct {
	opts   Options
	queue  *queue
	stop   chan struct{}
	once   sync.Once
	wg     sync.WaitGroup
	writer *writer
	ended  chan struct{} // closed when everything was written
}

// Open creates the folder if it is missing and starts the journal. It returns an error if another user owns the folder
// or others can write to it.
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
		_, _ = rand.Read(instance[:]) // it never fails: see crypto/rand
		o.Instance = hex.EncodeToString(instance[:])
	}
	j := &Journal{opts: o, queue: newQueue(o.MaxQueued, o.Content), stop: make(chan struct{}), ended: make(chan struct{})}
	j.writer = newWriter(o, &j.queue.marks)
	j.wg.Go(j.keepWriting)
	j.wg.Go(j.maintain)
	return j, nil
}

// MakeDir creates a journal's folder if it is missing. It returns an error if others can write to the folder.
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

// Frame records a frame. It copies the bytes and does not block. Frames that do not fit into the queue are counted.
func (j *Journal) Frame(f frame.Frame) { j.Add(&f) }

// Add is Frame for a caller that has a pointer to the frame.
func (j *Journal) Add(f *frame.Frame) { j.queue.put(f, j.opts.Now) }

// Dir returns the folder.
func (j *Journal) Dir() string { return j.opts.Dir }

// Content reports whether frames are recorded completely.
func (j *Journal) Content() bool { return j.opts.Content }

// Unwritten returns the number of frames of a session that could not be written and are not counted in its file yet,
// and the number of the last of these frames.
func (j *Journal) Unwritten(agentID, session string) (frames, last uint64) {
	j.writer.unsaidMu.Lock()
	defer j.writer.unsaidMu.Unlock()
	lacks := j.writer.unsaid[fileKey{agentID, session}]
	return lacks.frames, lacks.last
}

// Flush waits until the frames that were recorded before the call are in their files, or counted there. If ctx ends
// first, it returns ctx's error.
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

// Dropped returns the number of frames that did not fit into the queue.
func (j *Journal) Dropped() uint64 {
	j.queue.mu.Lock()
	defer j.queue.mu.Unlock()
	return j.queue.dropped
}

// Close writes the queue and closes the files. Later frames are not recorded.
func (j *Journal) Close() error {
	j.once.Do(func() {
		j.queue.close()
		close(j.stop)
	})
	j.wg.Wait()
	return j.writer.failed
}

// keepWriting writes until Close. A panic loses the current frames; writing continues with later ones.
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

// write is the writing goroutine. It leaves most processor time to others: in a flood, a journal that lacks frames is
// better than one that slows the agent down.
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
		if flood.continues(j) {
			d *= floodRest
		}
		if j.queue.marks.Load() > 0 { // a caller waits
			return
		}
		pause(max(d, linger)) // collect frames again: many small writes are expensive
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

// flood is a period in which the queue overflows.
type flood struct {
	dropped uint64    // dropped frames at the last check
	logged  time.Time // time of the last log entry; the senders of dropped frames must not wait for the log
}

// continues reports whether frames were dropped since the last call.
func (f *flood) continues(j *Journal) bool {
	n := j.Dropped()
	if n == f.dropped {
		return false
	}
	f.dropped = n
	if f.logged.IsZero() || time.Since(f.logged) >= logInterval {
		f.logged = time.Now()
		j.opts.Logger.Warn("the journal cannot keep up; it records the number and the place of dropped frames", "frames", n, "limit", j.opts.MaxQueued)
	}
	return true
}

// restAfter returns how long the writer pauses after it has worked.
func restAfter(worked time.Duration) time.Duration {
	duty := min(most, share*float64(runtime.GOMAXPROCS(0)))
	return min(restMost, time.Duration(float64(worked)*(1/duty-1)))
}

// maintain removes old files, and repairs files with an incomplete last line.
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

// tidy repairs files, removes old ones, and updates the index.
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
