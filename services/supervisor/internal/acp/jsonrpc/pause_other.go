//go:build !linux

package jsonrpc

import "time"

func pause(d time.Duration) { time.Sleep(d) }
