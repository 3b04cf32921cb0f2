// Package deploy has the tests of the files in deploy/: each is parsed as strictly as by the programs that it is for.
//
// It is a separate module, outside of go.work, because of its dependencies.
package deploy
