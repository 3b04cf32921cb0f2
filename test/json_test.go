package e2e_test

import (
	"encoding/json"
	"reflect"
	"testing"
)

// equalJSON reports whether two values are the same JSON.
func equalJSON(t testing.TB, a, b any) bool {
	t.Helper()
	return reflect.DeepEqual(plain(t, a), plain(t, b))
}

func plain(t testing.TB, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// dig follows names into nested objects; nil where one is missing.
func dig(v any, names ...string) any {
	for _, name := range names {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[name]
	}
	return v
}
