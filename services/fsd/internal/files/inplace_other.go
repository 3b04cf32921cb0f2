//go:build unix && !linux

package files

// reserve does nothing: only Linux can reserve space for a part of an existing file, including holes.
func reserve(int, int64) error { return nil }
