package telemetry

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	// other replaces values beyond the limit.
	other = "other"
	// none replaces a missing value.
	none = "none"
	// maxWord is the limit of a label's value, in bytes.
	maxWord = 96
)

// words are the values of one label: the first maxWords values are kept, and all others are "other", because an agent
// can choose any number of values.
type words struct {
	maxWords int

	mu    sync.Mutex
	known map[string]struct{} // guarded by mu
}

func newWords(maxWords int) *words { return &words{maxWords: maxWords, known: map[string]struct{}{}} }

// of returns the label's value for a value.
func (w *words) of(value string) string {
	switch {
	case value == "":
		return none
	case len(value) > maxWord || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return other
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.known[value]; ok {
		return value
	}
	if len(w.known) >= w.maxWords {
		return other
	}
	w.known[strings.Clone(value)] = struct{}{}
	return value
}

// labels are the values of all labels that are not chosen by acphost.
type labels struct {
	agent, rule, method, handler, currency *words
}

func newLabels() labels {
	return labels{agent: newWords(64), rule: newWords(256), method: newWords(128), handler: newWords(64), currency: newWords(16)}
}

// oneOf returns a value that is among the known ones, or "other".
func oneOf(value string, known ...string) string {
	if value == "" {
		return none
	}
	for _, k := range known {
		if k == value {
			return k
		}
	}
	return other
}
