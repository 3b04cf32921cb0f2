package reach

import (
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
)

const (
	// minQuestionPrefix is how many characters of a question's random part a person has to type at least.
	minQuestionPrefix = 4
	// shownQuestionPrefix is how many characters of it are shown at least.
	shownQuestionPrefix = 8
)

// QuestionPrefix returns the shortest prefix, of at least 8 characters, of the random part of a question's id that
// begins no other question's of the list. It is what a person copies. A question without a random part, as callers get
// it that may not answer, has its handle instead. Agents choose handles, so a handle is never cut.
func QuestionPrefix(q *supervisorv1.Approval, list []*supervisorv1.Approval) string {
	r := randomPart(q)
	n := min(shownQuestionPrefix, len(r))
	for _, other := range list {
		for o := randomPart(other); o != r && n < len(r) && strings.HasPrefix(o, r[:n]); {
			n++
		}
	}
	if n == 0 {
		return QuestionHandle(q)
	}
	return r[:n]
}

// NamesQuestion reports whether a word names a question: its id, its handle, or a prefix of at least 4 characters of
// its random part, in upper or lower case.
func NamesQuestion(word string, q *supervisorv1.Approval) bool {
	return word == q.GetId() || word == QuestionHandle(q) ||
		IsQuestionPrefix(word) && strings.HasPrefix(randomPart(q), strings.ToUpper(word))
}

// IsQuestionPrefix reports whether a word has a length with which it can name a question by its random part.
func IsQuestionPrefix(word string) bool {
	return len(word) >= minQuestionPrefix && len(word) <= randomLength
}

// QuestionHandle returns the handle of a question, whole. If the end of a handle looks like that of an id, it returns
// the id: an agent that has seen an id must not have its next question named so.
func QuestionHandle(q *supervisorv1.Approval) string {
	handle := client.Handle(q.GetId())
	if client.Handle(handle) != handle {
		return q.GetId()
	}
	return handle
}

// randomLength is the length of the random part of a question's id, in characters of RFC 4648's base32.
const randomLength = 26

// randomPart returns the part of a question's id that no agent chooses or knows; empty: it has none, or the caller was
// not told.
func randomPart(q *supervisorv1.Approval) string {
	part, _ := strings.CutPrefix(q.GetId(), client.Handle(q.GetId()))
	return strings.TrimPrefix(part, ".")
}
