// Package commands holds every ready policy to two corpora of command lines, through real programs.
//
// hostile.yaml has lines that only seem to look: each says what it does, and a test runs each without any policy, in a
// fixture of its own, and sees that it does so. harmless.yaml has lines that agents send when they look around: a test runs
// each, and sees that it changes nothing. Then an agent sends every line as terminal/create through acphost, under each
// ready policy, to an editor that refuses whatever it is asked: no hostile line may run, but for those that a policy lets run
// the project's code or edit its files by a rule for just that, and harmless lines must run without a question.
//
// To add a line, write it into its file with a name and, if it is hostile, with what it does (see entry for the fields).
// Look at it twice: the tests run it for real, and it must not reach further than its fixture.
package commands
