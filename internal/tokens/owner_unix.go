//go:build unix

package tokens

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// owned returns an error unless this user or root owns a file.
func owned(info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() && st.Uid != 0 {
		return fmt.Errorf("%s belongs to user %d, who could make tokens with it", info.Name(), st.Uid)
	}
	return nil
}
