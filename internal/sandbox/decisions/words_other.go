//go:build !linux

package decisions

// words tells nobody here: nothing is confined.
type words struct{}

func (*words) say(int, string) {}
