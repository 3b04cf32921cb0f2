package files

import (
	"errors"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// watch reports, with one system call, whether protected paths may lead elsewhere than when they were looked up.
//
// It watches every folder in which a name of a path was looked up, from / on and including those behind symbolic links,
// before it looks the name up. Each call then asks the kernel whether events are pending. If so, of whatever kind, all
// paths are looked up again. The cached result is valid as long as these facts hold:
//
//   - The target of a path depends only on the entries of those folders, on the mounts, and on the permission to search
//     the folders. The root of this process does not change. A symbolic link cannot be changed, only replaced.
//   - inotify queues an event for each entry that is created, removed or renamed in a watched folder before the system
//     call that did it returns. The watch is on the folder, not on its name, so it does not matter how the folder was
//     reached. If a folder itself is renamed, moved away or replaced, the watch on the folder above it reports that, up
//     to /.
//   - If the queue overflows, it contains an event for that. Events are never distinguished, so none can be misread.
//   - poll on /proc/thread-self/mountinfo reports once that mounts were added, moved or removed since the previous
//     poll.
//   - The file system is one of those below, on which only this kernel's system calls change entries, and a file keeps
//     its device and inode. A folder encrypted with fscrypt is excluded: its names appear with the key, without an
//     event.
//
// If a fact is in doubt, paths are looked up at every call: on other file systems, below a folder that may be searched
// but not read, if the limit of watches is reached, and after any error. A folder that may not be searched has no
// visible entries; each call checks whether that is still so. If a folder could be searched, its permissions are
// assumed unchanged: a path is then protected although a lookup would not find it.
type watch struct {
	events int // inotify
	mounts int

	// Results of the last refresh.
	folders      map[string]error // folders that were entered: nil, or why paths below are not watched
	watches      map[int]bool     // the inotify watch descriptors of these folders
	unsearchable []string         // folders that may not be searched
}

const (
	// entryChanges are the events that change the target of a path through a folder.
	entryChanges = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW
	// maxDrain limits the buffers of events that are read at once. If events are left, the next call looks the paths up
	// again.
	maxDrain = 16
)

var (
	errUnwatched = errors.New("changes are not reported")
	errClosed    = errors.New("the folder may not be searched")
)

// newWatch returns nil if the system cannot report changes.
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

// changed reports whether paths may lead elsewhere than refresh has found. A call of refresh must follow.
func (w *watch) changed() bool {
	fds := [...]unix.PollFd{{Fd: int32(w.events), Events: unix.POLLIN}, {Fd: int32(w.mounts), Events: unix.POLLPRI}}
	if n, err := retried(func() (int, error) { return unix.Poll(fds[:], 0) }); n != 0 || err != nil {
		return true
	}
	return slices.ContainsFunc(w.unsearchable, func(folder string) bool { return !unsearchable(folder) })
}

// refresh looks the paths up. changed reports all later changes.
func (w *watch) refresh(paths []protectedPath) *watchResult {
	w.drain()
	previous := w.watches
	w.folders, w.watches, w.unsearchable = map[string]error{}, map[int]bool{}, nil
	result, walker := &watchResult{}, &walker{beforeLookup: w.watchFolder}
	for _, path := range paths {
		at, err := walker.walk(path.requested, anyPath, false)
		switch {
		case errors.Is(err, errClosed):
		case err != nil:
			result.unwatched = append(result.unwatched, path)
		case !at.exists():
			result.names = append(result.names, at.path)
		default:
			// A file on another file system keeps its identity only as far as that file system guarantees it.
			if folder, err := walker.lookup(filepath.Dir(at.path)); err != nil || folder.meta.dev != at.meta.dev {
				result.unwatched = append(result.unwatched, path)
			} else {
				result.objects = append(result.objects, at.meta.identity)
			}
		}
	}
	result.names, result.objects = slices.Clip(result.names), slices.Clip(result.objects) // callers append unwatched paths
	for number := range previous {
		if !w.watches[number] {
			_, _ = unix.InotifyRmWatch(w.events, uint32(number)) // the kernel may have removed it already
		}
	}
	return result
}

// drain removes events from the queue, so that later ones are noticed.
func (w *watch) drain() {
	var buffer [4 << 10]byte
	for range maxDrain {
		if n, err := unix.Read(w.events, buffer[:]); n <= 0 || err != nil {
			return
		}
	}
}

// watchFolder watches a folder before a name in it is looked up.
func (w *watch) watchFolder(folder string) error {
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
	case errors.Is(err, unix.EACCES) && unsearchable(folder):
		w.unsearchable = append(w.unsearchable, folder)
		return errClosed
	case err != nil:
		return errUnwatched
	}
	w.watches[number] = true
	if !reportsChanges(folder) {
		return errUnwatched
	}
	return nil
}

// unsearchable reports whether a folder may not be searched.
func unsearchable(folder string) bool {
	_, err := lstat(folder + "/.")
	return errors.Is(err, unix.EACCES)
}

// reportsChanges reports whether a folder's file system reports every change of its entries.
func reportsChanges(folder string) bool {
	var fs unix.Statfs_t
	if retry(func() error { return unix.Statfs(folder, &fs) }) != nil {
		return false
	}
	switch uint32(fs.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
	default:
		return false
	}
	var statx unix.Statx_t
	err := retry(func() error { return unix.Statx(unix.AT_FDCWD, folder, unix.AT_SYMLINK_NOFOLLOW, 0, &statx) })
	return err == nil && statx.Attributes&unix.STATX_ATTR_ENCRYPTED == 0
}
