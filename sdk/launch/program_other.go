//go:build !linux && !darwin

package launch

import (
	"os"
	"time"
)

func changeTime(info os.FileInfo) time.Time { return info.ModTime() }
