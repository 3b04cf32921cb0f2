//go:build !linux

// Package procsnapshot reads all processes at once. It is implemented only for Linux.
package procsnapshot
