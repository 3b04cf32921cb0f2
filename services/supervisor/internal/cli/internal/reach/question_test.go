package reach

import (
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestQuestionPrefix_IsShortestUnique(t *testing.T) {
	question := func(handle, random string) *supervisorv1.Approval {
		return &supervisorv1.Approval{Id: handle + "." + random + strings.Repeat("A", randomLength-len(random))}
	}
	list := []*supervisorv1.Approval{
		question("a-1/1", "K7QF2MXA"), question("a-1/2", "K7QF2MXAB7"), question("b-1/1", "BBBB"),
		{Id: "c-1/" + strings.Repeat("long", 20)}, // as sent to a caller that may not answer
	}
	for i, want := range []string{"K7QF2MXAA", "K7QF2MXAB", "BBBBAAAA", list[3].GetId()} {
		got := QuestionPrefix(list[i], list)
		if got != want {
			t.Errorf("prefix of question %d = %q, want %q", i, got, want)
		}
		for j, q := range list {
			if named := MatchesQuestion(got, q); named != (i == j) {
				t.Errorf("%q names question %d: %v", got, j, named)
			}
		}
	}
	if got := QuestionPrefix(list[0], nil); got != "K7QF2MXA" {
		t.Errorf("prefix of the only question = %q, want K7QF2MXA", got)
	}
}

func TestNamesQuestion_NeedsFourCharacters(t *testing.T) {
	q := &supervisorv1.Approval{Id: "a-1/7.K7QF" + strings.Repeat("A", 22)}
	for word, want := range map[string]bool{
		"K7Q": false, "K7QF": true, "k7qfa": true, "a-1/": false, "a-1/7": true, q.GetId(): true, q.GetId()[:20]: false,
	} {
		if got := MatchesQuestion(word, q); got != want {
			t.Errorf("NamesQuestion(%q) = %v, want %v", word, got, want)
		}
	}
}
