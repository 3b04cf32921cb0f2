package conformance

import (
	"context"

	"github.com/acphost/acphost/internal/testkit"
)

// The policies of the tests answer at once. How long that takes depends on the machine's load.
func init() { decisionDeadline = testkit.Timeout() }

// OneCase is a case of a test's own.
func OneCase(run func()) Case {
	return Case{"test/one", func(context.Context, *env) { run() }}
}
