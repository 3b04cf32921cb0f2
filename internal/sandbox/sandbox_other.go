//go:build !linux || (!amd64 && !arm64)

package sandbox

import (
	"fmt"
	"os"
	"runtime"
)

// Main fails: only Linux on amd64 and arm64 can confine programs. It returns the exit status of the process.
func Main() int { return MainWith(nil) }

// MainWith fails likewise.
func MainWith(func(fd int, o Options) (Decider, error)) int {
	fmt.Fprintf(os.Stderr, "sandbox: %v: it is made for Linux on amd64 and arm64, and this is %s on %s\n", ErrUnsupported, runtime.GOOS, runtime.GOARCH)
	return failed
}

// failed is the exit status if the command could not be started.
const failed = 125

// Supported returns ErrUnsupported: no program can be confined here.
func Supported() error { return ErrUnsupported }

// Carry does nothing, because Supported makes no trial here.
func Carry() {}
