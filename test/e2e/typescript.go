package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// Peer is the path of a peer that runs on node.
func Peer(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("peers", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), "node_modules", "@agentclientprotocol", "sdk")); err != nil {
		t.Fatalf("the TypeScript SDK is not installed; run \"make test-deps\": %v", err)
	}
	return path
}
