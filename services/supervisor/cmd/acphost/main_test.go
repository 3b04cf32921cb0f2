package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// asProgram makes the test binary be acphost, for tests that need a process.
const asProgram = "ACPHOST_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	// The guard of an agent is started without the environment.
	if os.Getenv(asProgram) != "" || len(os.Args) > 1 && os.Args[1] == "guard" {
		os.Exit(realMain())
	}
	goleak.VerifyTestMain(m)
}
