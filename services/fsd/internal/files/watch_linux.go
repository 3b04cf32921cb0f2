package files

import (
	"errors"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// watch tells whether protected paths may lead elsewhere than when they were looked up, by one system call.
//
// It watches every folder in which a name was looked up on the way of a path, from / on, those behind symbolic links too, and
// does so before it looks the name up. Each call then asks the kernel whether anything waits to be told. If so, whatever it
// is, all paths are looked up again. What was seen is right as long as these facts hold:
//
//   - Where a path leads depends on the entries of those folders, on what is mounted, and on the right to search the folders,
//     and on nothing else. The root of this process does not change. A symbolic link cannot be changed, only replaced.
//   - inotify queues an event for each entry that is created, removed or renamed in a watched folder before the system call
//     that did it returns. The watch is on the folder, not on its name, so it does not matter how the folder was reached. Of a
//     folder that is itself renamed, moved away or replaced, the watch on the folder above it tells, up to /.
//   - An event that finds no room leaves one that says so. Events are never told apart, so none can be misread.
//   - poll on /proc/thread-self/mountinfo tells once of mounts that were added, moved or removed since it was asked before.
//   - The file system is one of those below, on which entries change through this kernel's own system calls alone, and a file
//     keeps its device and inode. A folder that fscrypt encrypts is excluded: its names appear with the key, and nothing tells.
//
// Paths for which a fact is in doubt are left to be looked up at every call: on other file systems, below a folder that may be
// searched and not read, if the limit of watches is reached, after any error. A folder that may not be searched has nothing to
// see; each call asks whether that is still so. Rights are taken for what they were if a folder could be searched: a path is
// then protected although a look would not find it.
type watch struct {
	events int // inotify
	mounts int

	// Of the last look.
	folders map[string]error // that were entered: nil, or why what is below is not watched
	watches map[int]bool     // inotify's numbers of these
	closed  []string         // those that may not be searched
}

const (
	// entryChanges are the events that change where a path leads through a folder.
	entryChanges = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW
	// maxDrain is how many buffers of events are read at once. The rest has the next call look again.
	maxDrain = 16
)

var (
	errUnwatched = errors.New("changes are not told")
	errClosed    = errors.New("the folder may not be searched")
)

// newWatch returns nil if the system cannot tell of changes.
func newWatch() *watch {
	events, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil
	}
	mounts, err := unix.Open("/proc/thread-self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = unix.Close(events)
		return nil
	}
	w := &watch{events: events, mounts: mounts}
	runtime.AddCleanup(w, func(fds [2]int) {
		_ = unix.Close(fds[0])
		_ = unix.Close(fds[1])
	}, [2]int{events, mounts})
	if st := (unix.Statfs_t{}); unix.Fstatfs(mounts, &st) != nil || st.Type != unix.PROC_SUPER_MAGIC {
		return nil
	}
	return w
}

// changed reports whether paths may lead elsewhere than look has seen. Ask once: look must follow.
func (w *watch) changed() bool {
	fds := [...]unix.PollFd{{Fd: int32(w.events), Events: unix.POLLIN}, {Fd: int32(w.mounts), Events: unix.POLLPRI}}
	if n, err := retried(func() (int, error) { return unix.Poll(fds[:], 0) }); n != 0 || err != nil {
		return true
	}
	return slices.ContainsFunc(w.closed, func(folder string) bool { return !closed(folder) })
}

// look finds where paths lead. Whatever changes from now on, changed tells.
func (w *watch) look(paths []protectedPath) *watched {
	w.drain()
	before := w.watches
	w.folders, w.watches, w.closed = map[string]error{}, map[int]bool{}, nil
	is, walker := &watched{}, &walker{before: w.enter}
	for _, path := range paths {
		at, err := walker.walk(path.asked, everywhere, false)
		switch {
		case errors.Is(err, errClosed):
		case err != nil:
			is.unwatched = append(is.unwatched, path)
		case !at.exists():
			is.names = append(is.names, at.path)
		default:
			// What another file system shows here keeps its identity only as far as that file system says so.
			if folder, err := walker.look(filepath.Dir(at.path)); err != nil || folder.meta.dev != at.meta.dev {
				is.unwatched = append(is.unwatched, path)
			} else {
				is.objects = append(is.objects, at.meta.identity)
			}
		}
	}
	is.names, is.objects = slices.Clip(is.names), slices.Clip(is.objects) // callers append what is not watched
	for number := range before {
		if !w.watches[number] {
			_, _ = unix.InotifyRmWatch(w.events, uint32(number)) // which the kernel may have removed already
		}
	}
	return is
}

// drain takes events out of the queue, so that those that come later are seen.
func (w *watch) drain() {
	var buffer [4 << 10]byte
	for range maxDrain {
		if n, err := unix.Read(w.events, buffer[:]); n <= 0 || err != nil {
			return
		}
	}
}

// enter watches a folder in which a name is about to be looked up.
func (w *watch) enter(folder string) error {
	err, known := w.folders[folder]
	if !known {
		err = w.add(folder)
		w.folders[folder] = err
	}
	return err
}

func (w *watch) add(folder string) error {
	number, err := retried(func() (int, error) { return unix.InotifyAddWatch(w.events, folder, entryChanges) })
	switch {
	case errors.Is(err, unix.EACCES) && closed(folder):
		w.closed = append(w.closed, folder)
		return errClosed
	case err != nil:
		return errUnwatched
	}
	w.watches[number] = true
	if !tells(folder) {
		return errUnwatched
	}
	return nil
}

// closed reports whether a folder may not be searched.
func closed(folder string) bool {
	_, err := lstat(folder + "/.")
	return errors.Is(err, unix.EACCES)
}

// tells reports whether a folder's file system tells of every change to its entries.
func tells(folder string) bool {
	var fs unix.Statfs_t
	if retry(func() error { return unix.Statfs(folder, &fs) }) != nil {
		return false
	}
	switch uint32(fs.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
	default:
		return false
	}
	var is unix.Statx_t
	err := retry(func() error { return unix.Statx(unix.AT_FDCWD, folder, unix.AT_SYMLINK_NOFOLLOW, 0, &is) })
	return err == nil && is.Attributes&unix.STATX_ATTR_ENCRYPTED == 0
}
