//go:build !linux && !darwin

package prompt

import (
	"errors"
	"os"
)

// openKeyboard returns an error, because this system is not supported.
func openKeyboard(*os.File) (keyboard, error) {
	return nil, errors.New("acphost cannot read single keys on this system")
}
