package conformance

import "context"

// OneCase is a case of a test's own.
func OneCase(run func()) Case {
	return Case{"test/one", func(context.Context, *env) { run() }}
}
