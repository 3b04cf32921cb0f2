//go:build !linux && !darwin

package command

import "os"

// Window returns false, because this system is not supported.
func Window(*os.File) (columns, rows int, terminal bool) { return 0, 0, false }
