//go:build !linux && !darwin

package prompt

import (
	"errors"
	"os"
)

// openKeyboard cannot read keys here.
func openKeyboard(*os.File) (keyboard, error) {
	return nil, errors.New("acphost cannot read single keys on this system")
}
