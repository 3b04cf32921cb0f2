package containment

import "testing"

func TestTurnState_RecordsDenialsBeyondLimit(t *testing.T) {
	var s turnState
	for i := range maxDenials + 10 {
		if key := string(rune(i)); !s.firstDenial("1", key) {
			t.Fatalf("denial %d has no record of its own", i)
		} else if s.firstDenial("1", key) {
			t.Fatalf("denial %d has two records", i)
		}
	}
}
