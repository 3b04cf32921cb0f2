//go:build !linux && !darwin

package launch

// waitUnreaped returns false: the platform cannot wait for a process without reaping it.
func waitUnreaped(int) bool { return false }
