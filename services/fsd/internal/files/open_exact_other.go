//go:build unix && !linux

package files

// openExact opens an absolute path and rejects a symbolic link anywhere in it (ELOOP, ENOTDIR).
func openExact(path string, flags int) (int, error) {
	return openWalking(path, flags)
}
