// Package corpus proves that what a policy denies stays denied, however it is said: a table of command lines and paths
// (corpus.yaml) with what is to become of each, and a fuzz target that wraps a denied command in ways of its own.
//
// It holds tests and their data alone. An Action is built as the supervisor builds it: lines are taken apart by
// sdk/shell, and paths are resolved on a real file system with real symbolic links.
package corpus
