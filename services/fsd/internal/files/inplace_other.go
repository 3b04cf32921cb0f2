//go:build unix && !linux

package files

// reserve does nothing: only Linux can reserve space for a part of a file that exists already, holes and all.
func reserve(int, int64) error { return nil }
