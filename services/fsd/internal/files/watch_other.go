//go:build unix && !linux

package files

// watch exists only on Linux: see watch_linux.go. Here no changes are reported.
type watch struct{}

func newWatch() *watch { return nil }

func (*watch) changed() bool { return true }

func (*watch) refresh(paths []protectedPath) *watchResult { return &watchResult{unwatched: paths} }
