package e2e

import (
	"encoding/json"
	"reflect"
	"testing"
)

// EqualJSON reports whether two values are the same JSON.
func EqualJSON(t testing.TB, a, b any) bool {
	t.Helper()
	return reflect.DeepEqual(Plain(t, a), Plain(t, b))
}

// Plain is a value as JSON has it: maps, slices, strings and numbers.
func Plain(t testing.TB, v any) any {
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

// Dig follows names into nested objects; nil where one is missing.
func Dig(v any, names ...string) any {
	for _, name := range names {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = object[name]
	}
	return v
}
