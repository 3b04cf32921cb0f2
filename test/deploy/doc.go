// Package deploy has the tests of the files in deploy/: each is read as strictly as those read it for whom it is.
//
// It is a module of its own, outside of go.work: nothing else needs what it needs.
package deploy
