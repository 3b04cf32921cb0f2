package replay

import (
	"reflect"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
)

func TestReplay_DistinguishesSessionsOfSameID(t *testing.T) {
	part := func(instance string, isNew bool) journal.Part {
		return journal.Part{Path: instance, New: isNew, Header: journal.Header{Instance: instance}}
	}
	parts := []journal.Part{part("a", true), part("b", false), part("c", true), part("d", false)}
	for name, tt := range map[string]struct {
		parts []journal.Part
		at    Position
		want  []string
	}{
		"the last one":                     {parts, Position{}, []string{"c", "d"}},
		"the one of a cursor":              {parts, Position{Instance: "a", Seq: 7}, []string{"a", "b"}},
		"of a cursor in a resumed session": {parts, Position{Instance: "b", Seq: 7}, []string{"a", "b"}},
		"of a cursor in the last":          {parts, Position{Instance: "d", Seq: 7}, []string{"c", "d"}},
		"an unknown cursor":                {parts, Position{Instance: "x", Seq: 7}, []string{"c", "d"}},
		"only resumed":                     {parts[1:2], Position{}, []string{"b"}},
		"none":                             {nil, Position{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range OneSession(tt.parts, tt.at) {
				got = append(got, p.Path)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
