package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// asProgram makes the test binary be acphost, for tests that need a process.
const asProgram = "ACPHOST_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}
