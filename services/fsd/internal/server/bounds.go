package server

import (
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"

	"github.com/acphost/acphost/services/fsd/internal/files"
)

// boundsOf converts a call's context to the bounds of package files.
func boundsOf(c *acpv1.CallContext) (files.Bounds, error) {
	if c == nil {
		return files.Bounds{}, errNoContext.Err()
	}
	b := files.Bounds{
		Roots:    make([]files.Root, 0, len(c.GetRoots())),
		Resolved: c.GetResolvedPath().GetPath(),
		Allowed:  c.GetAllowedPath(),
		NoDigest: c.GetNoDigest(),
	}
	for _, root := range c.GetRoots() {
		b.Roots = append(b.Roots, files.Root{Path: root.GetPath(), ReadOnly: root.GetReadOnly()})
	}
	return b, nil
}
