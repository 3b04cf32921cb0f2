//go:build !linux && !darwin

package command

import "os"

// Window knows no terminals here.
func Window(*os.File) (columns, rows int, terminal bool) { return 0, 0, false }
