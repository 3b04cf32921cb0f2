package shell

import "testing"

func TestXargs_MayAppendBesideReplacing(t *testing.T) {
	for line, want := range map[string]bool{
		"xargs -I% cat x": false, "xargs -I% -n1 cat x": true, "xargs -J % cat x": true, "xargs -R 5 cat x": true, "xargs cat x": true,
	} {
		subs, unparsed := Parse(line)
		if unparsed != "" || len(subs) != 1 || subs[0].GetDynamic() != want {
			t.Errorf("%q: %q, %v; want dynamic: %v", line, unparsed, subs, want)
		}
	}
	if _, unparsed := Parse("xargs --process-slot-var=BASH_ENV bash -c ls"); unparsed == "" {
		t.Error("xargs that sets a variable is taken for fully seen")
	}
}

func TestByName_HasEachName(t *testing.T) {
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
