package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

// A guard that initialised all of acphost would cost each agent 4 MB and 12 ms. Imports of package guard decide when Go
// initialises it: one whose path sorts late ("path/filepath", "runtime/debug") lets most of acphost come first.
func TestGuard_InitialisesFewPackages(t *testing.T) {
	initialised := func(args ...string) []string {
		cmd := exec.Command(testkit.Self(t), args...)
		cmd.Env = append(os.Environ(), asProgram+"=1", "GODEBUG=inittrace=1")
		said, _ := cmd.CombinedOutput() // a guard that nobody needs refuses
		var packages []string
		for _, line := range regexp.MustCompile(`(?m)^init (\S+) @`).FindAllSubmatch(said, -1) {
			packages = append(packages, string(line[1]))
		}
		return packages
	}
	const heavy = "google.golang.org/grpc"
	if all := initialised("version"); !slices.Contains(all, heavy) {
		t.Fatalf("this test is of nothing: acphost initialises %v", all)
	}
	if few := initialised("guard"); len(few) == 0 || len(few) > 100 || slices.Contains(few, heavy) {
		t.Errorf("a guard initialises %d packages: %v", len(few), few)
	}
}
