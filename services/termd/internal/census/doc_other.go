//go:build !linux

// Package census examines all processes at once. It is implemented for Linux only.
package census
