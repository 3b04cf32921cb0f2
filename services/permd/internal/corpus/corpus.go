// Package corpus tests that a denied action stays denied in every spelling. It has a table of command lines and paths
// with the expected verdicts (corpus.yaml), and a fuzz target that wraps a denied command in generated ways.
//
// The package contains only tests and their data. It builds an Action as the supervisor does: internal/shell splits
// command lines, and paths are resolved on a real file system with real symbolic links.
package corpus
