package shell

import "testing"

func TestATableHasARowForEachName(t *testing.T) {
	table := byName(map[string]int{"a b": 1, "c\n\td": 2})
	for name, want := range map[string]int{"a": 1, "b": 1, "c": 2, "d": 2} {
		if table[name] != want || len(table) != 4 {
			t.Errorf("%s: %d in %v, want %d", name, table[name], table, want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a name in two rows was taken")
		}
	}()
	byName(map[string]int{"a b": 1, "b c": 2})
}
