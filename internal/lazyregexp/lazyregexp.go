// Package lazyregexp has regular expressions that are compiled when they are first used. Those of package variables would
// otherwise be compiled, all of them, by each process before its main function: 3 ms and 1.2 MB of acphost's start.
//
// It is what the Go project has for its own commands (internal/lazyregexp).
package lazyregexp

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// Regexp is a regular expression. Its methods are regexp.Regexp's, and safe for concurrent use.
type Regexp struct {
	text string
	once sync.Once
	rx   *regexp.Regexp
}

// inTest: this is a test's program, which compiles at once, so that a wrong expression fails every test.
var inTest = len(os.Args) > 0 && strings.HasSuffix(os.Args[0], ".test")

// New returns the expression. Its first use panics if the text is none, as regexp.MustCompile does.
func New(text string) *Regexp {
	r := &Regexp{text: text}
	if inTest {
		r.get()
	}
	return r
}

func (r *Regexp) get() *regexp.Regexp {
	r.once.Do(func() { r.rx = regexp.MustCompile(r.text) })
	return r.rx
}

// Match is that of regexp.Regexp.
func (r *Regexp) Match(b []byte) bool { return r.get().Match(b) }

// MatchString is that of regexp.Regexp.
func (r *Regexp) MatchString(s string) bool { return r.get().MatchString(s) }

// FindIndex is that of regexp.Regexp.
func (r *Regexp) FindIndex(b []byte) []int { return r.get().FindIndex(b) }

// FindString is that of regexp.Regexp.
func (r *Regexp) FindString(s string) string { return r.get().FindString(s) }

// FindStringIndex is that of regexp.Regexp.
func (r *Regexp) FindStringIndex(s string) []int { return r.get().FindStringIndex(s) }

// FindStringSubmatch is that of regexp.Regexp.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.get().FindStringSubmatch(s) }

// FindStringSubmatchIndex is that of regexp.Regexp.
func (r *Regexp) FindStringSubmatchIndex(s string) []int { return r.get().FindStringSubmatchIndex(s) }

// FindAllString is that of regexp.Regexp.
func (r *Regexp) FindAllString(s string, n int) []string { return r.get().FindAllString(s, n) }

// FindAllStringSubmatch is that of regexp.Regexp.
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.get().FindAllStringSubmatch(s, n)
}

// ReplaceAllString is that of regexp.Regexp.
func (r *Regexp) ReplaceAllString(s, by string) string { return r.get().ReplaceAllString(s, by) }

// ReplaceAllLiteralString is that of regexp.Regexp.
func (r *Regexp) ReplaceAllLiteralString(s, by string) string {
	return r.get().ReplaceAllLiteralString(s, by)
}

// ReplaceAllStringFunc is that of regexp.Regexp.
func (r *Regexp) ReplaceAllStringFunc(s string, by func(string) string) string {
	return r.get().ReplaceAllStringFunc(s, by)
}
