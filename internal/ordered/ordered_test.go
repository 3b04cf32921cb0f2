package ordered

import (
	"fmt"
	"strings"
	"testing"
)

func shown(m *Map[string, int]) string {
	var all []string
	for k, v := range m.All() {
		all = append(all, fmt.Sprint(k, v))
	}
	return strings.Join(all, " ")
}

func TestMap_KeepsOrderOfKeys(t *testing.T) {
	var m Map[string, int]
	if v, ok := m.Get("a"); v != 0 || ok || m.Delete("a") != 0 || m.Len() != 0 || shown(&m) != "" {
		t.Error("an empty map has something")
	}
	m.Renew("a")
	for i, k := range []string{"a", "b", "c"} {
		m.Set(k, i)
	}
	m.Set("a", 7)
	if got := shown(&m); got != "a7 b1 c2" {
		t.Errorf("a key that is set again: got %s", got)
	}
	m.Renew("a")
	if got := shown(&m); got != "b1 c2 a7" || m.Oldest() != "b" {
		t.Errorf("a key that is moved: got %s, the oldest is %s", got, m.Oldest())
	}
	m.Keep("d", 4, 3)
	if got := shown(&m); got != "c2 a7 d4" {
		t.Errorf("a key too many: got %s", got)
	}
	for k := range m.All() {
		if k != "a" {
			m.Delete(k)
		}
	}
	if got := shown(&m); got != "a7" || m.At("a") != 7 || m.At("c") != 0 || m.Len() != 1 {
		t.Errorf("deleted meanwhile: got %s", got)
	}
	m.Clear()
	m.Set("z", 1)
	if got := shown(&m); got != "z1" {
		t.Errorf("after Clear: got %s", got)
	}
}
