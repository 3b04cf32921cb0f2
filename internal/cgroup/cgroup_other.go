//go:build !linux

package cgroup

// Delegated returns why no control groups can be created: they exist only on Linux.
func Delegated() error { return ErrNotDelegated }

// New returns an error: control groups exist only on Linux.
func New(string, Limits) (*Group, error) { return nil, ErrNotDelegated }

// Enterable returns false.
func Enterable(string) bool { return false }

// Reached returns 0.
func Reached(string) (refused, ended uint64) { return 0, 0 }

// Remove does nothing.
func (*Group) Remove() error { return nil }
