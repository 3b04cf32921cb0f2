package reach

import (
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
)

const (
	// minQuestionPrefix is the minimum number of characters of a question's random part that users have to type.
	minQuestionPrefix = 4
	// shownQuestionPrefix is the minimum number of its characters that are shown.
	shownQuestionPrefix = 8
)

// QuestionPrefix returns the shortest prefix, of at least 8 characters, of the random part of a question's id that is
// unique in the list, for the user to copy. For a question without a random part, which callers that may not answer
// receive, it returns the handle. Agents choose handles, so a handle is never shortened.
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

// MatchesQuestion reports whether a word names a question: its id, its handle, or a prefix of at least 4 characters of
// its random part, in upper or lower case.
func MatchesQuestion(word string, q *supervisorv1.Approval) bool {
	return word == q.GetId() || word == QuestionHandle(q) ||
		IsQuestionPrefix(word) && strings.HasPrefix(randomPart(q), strings.ToUpper(word))
}

// IsQuestionPrefix reports whether the length of a word is valid for a prefix of the random part.
func IsQuestionPrefix(word string) bool {
	return len(word) >= minQuestionPrefix && len(word) <= randomLength
}

// QuestionHandle returns the complete handle of a question. If the end of a handle looks like that of an id, it returns
// the id, so that an agent that has seen an id cannot use it as the handle of its next question.
func QuestionHandle(q *supervisorv1.Approval) string {
	handle := client.Handle(q.GetId())
	if client.Handle(handle) != handle {
		return q.GetId()
	}
	return handle
}

// randomLength is the length of the random part of a question's id, in characters of RFC 4648's base32.
const randomLength = 26

// randomPart returns the part of a question's id that agents neither choose nor know. It is empty if none exists, or if
// the caller did not receive it.
func randomPart(q *supervisorv1.Approval) string {
	part, _ := strings.CutPrefix(q.GetId(), client.Handle(q.GetId()))
	return strings.TrimPrefix(part, ".")
}
