//go:build !linux

package decisions

import "github.com/acphost/acphost/internal/sandbox"

// Dial fails: there is no sandbox here.
func Dial(int, sandbox.Options) (sandbox.Decider, error) { return nil, sandbox.ErrUnsupported }
