//go:build !linux

package reuse

import (
	"io/fs"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func identify(*permissionv1.FileState, fs.FileInfo) bool { return false }

func view() string { return "" }
