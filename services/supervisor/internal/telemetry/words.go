package telemetry

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	// other stands for values beyond those that are told apart.
	other = "other"
	// none stands for a value that is missing.
	none = "none"
	// maxWord is the longest value of a label, in bytes.
	maxWord = 96
)

// words are the values of one label: the first so many are told apart, and all others are "other". What an agent can choose, it
// can choose a million times.
type words struct {
	most int

	mu    sync.Mutex
	known map[string]struct{} // guarded by mu
}

func newWords(most int) *words { return &words{most: most, known: map[string]struct{}{}} }

// of returns a value as a label has it.
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
	if len(w.known) >= w.most {
		return other
	}
	w.known[strings.Clone(value)] = struct{}{}
	return value
}

// labels are the values of all labels that others than acphost choose.
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
