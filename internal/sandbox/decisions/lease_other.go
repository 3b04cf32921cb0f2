//go:build !linux

package decisions

import (
	"io/fs"
	"net"
	"time"

	"github.com/acphost/acphost/internal/sandbox"
	sandboxv1 "github.com/acphost/acphost/proto/acphost/sandbox/v1"
)

// There are no leases here, because there is no sandbox.

type shared struct{}

func (shared) close() {}

// NewGeneration returns nil: there is no sandbox here.
func NewGeneration() (*Generation, error) { return nil, nil } //nolint:nilnil // no leases are given for nil

func (*Generation) lend(net.Conn) *Counts { return nil }

type leases struct{}

type leased struct{}

func borrow([]int) *leases { return nil }

func leasable(sandbox.Event) (about leased, name string, ok bool) { return leased{}, "", false }

func (*leases) keep(leased, *sandboxv1.Lease, time.Time) {}

func (*leases) allow(leased, string, sandbox.Event) bool { return false }

func heldID(sandbox.Event) (FileID, bool) { return FileID{}, false }

// IDOf returns false: there is no sandbox here.
func IDOf(fs.FileInfo) (id FileID, ok bool) { return FileID{}, false }
