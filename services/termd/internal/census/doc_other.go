//go:build !linux

// Package census looks at all processes at once. Only Linux can.
package census
