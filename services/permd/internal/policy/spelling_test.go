package policy_test

import "testing"

func TestDeny_MatchesSpellingsOfOptions(t *testing.T) {
	p := parse(t, "version: 1\nrules:\n- {id: d, effect: deny, command: [rm -rf, git push --force]}\n- {id: a, effect: allow, command: [rm, git]}\n")
	for text, want := range map[string]string{
		"rm -rf x": "d", "rm -fr x": "d", "rm -r -f x": "d", "rm x --recursive --force": "d", "rm -vRf x": "d",
		"git push origin --force": "d", "git push -f": "d", "rm -r x": "a", "rm -f x": "a", "rm -- -rf": "a", "git status": "a",
	} {
		if got := decide(p, about("terminal.create", line(text))); got.GetRule() != want {
			t.Errorf("%s: got %v, want rule %s", text, got, want)
		}
	}
}
