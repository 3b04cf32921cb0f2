//go:build !linux

// Package census reads all processes at once. It is implemented only for Linux.
package census
