// Package lazyregexp provides regular expressions that are compiled at first use. Package variables of type
// regexp.Regexp would be compiled by each process before its main function, which takes 3 ms and 1.2 MB of acphost's
// start.
//
// It follows the package internal/lazyregexp of the Go project.
package lazyregexp

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// Regexp is a regular expression with the methods of regexp.Regexp. Safe for concurrent use.
type Regexp struct {
	text string
	once sync.Once
	rx   *regexp.Regexp
}

// inTest is true in a test program, which compiles at once, so that an invalid expression fails every test.
var inTest = len(os.Args) > 0 && strings.HasSuffix(os.Args[0], ".test")

// New returns the expression. Its first use panics if the expression is invalid, like regexp.MustCompile.
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

// Match is like regexp.Regexp.Match.
func (r *Regexp) Match(b []byte) bool { return r.get().Match(b) }

// MatchString is like regexp.Regexp.MatchString.
func (r *Regexp) MatchString(s string) bool { return r.get().MatchString(s) }

// FindIndex is like regexp.Regexp.FindIndex.
func (r *Regexp) FindIndex(b []byte) []int { return r.get().FindIndex(b) }

// FindString is like regexp.Regexp.FindString.
func (r *Regexp) FindString(s string) string { return r.get().FindString(s) }

// FindStringIndex is like regexp.Regexp.FindStringIndex.
func (r *Regexp) FindStringIndex(s string) []int { return r.get().FindStringIndex(s) }

// FindStringSubmatch is like regexp.Regexp.FindStringSubmatch.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.get().FindStringSubmatch(s) }

// FindStringSubmatchIndex is like regexp.Regexp.FindStringSubmatchIndex.
func (r *Regexp) FindStringSubmatchIndex(s string) []int { return r.get().FindStringSubmatchIndex(s) }

// FindAllString is like regexp.Regexp.FindAllString.
func (r *Regexp) FindAllString(s string, n int) []string { return r.get().FindAllString(s, n) }

// FindAllStringSubmatch is like regexp.Regexp.FindAllStringSubmatch.
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.get().FindAllStringSubmatch(s, n)
}

// ReplaceAllString is like regexp.Regexp.ReplaceAllString.
func (r *Regexp) ReplaceAllString(s, by string) string { return r.get().ReplaceAllString(s, by) }

// ReplaceAllLiteralString is like regexp.Regexp.ReplaceAllLiteralString.
func (r *Regexp) ReplaceAllLiteralString(s, by string) string {
	return r.get().ReplaceAllLiteralString(s, by)
}

// ReplaceAllStringFunc is like regexp.Regexp.ReplaceAllStringFunc.
func (r *Regexp) ReplaceAllStringFunc(s string, by func(string) string) string {
	return r.get().ReplaceAllStringFunc(s, by)
}
