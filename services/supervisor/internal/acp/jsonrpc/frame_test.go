package jsonrpc

import (
	"encoding/json"
	"testing"
)

func TestAppend_Frames(t *testing.T) {
	for _, tt := range []struct{ name, got, want string }{
		{"a result", string(AppendResult(nil, []byte(`"a"`), []byte(`{}`))), `{"jsonrpc":"2.0","id":"a","result":{}}` + "\n"},
		{"no result", string(AppendResult(nil, []byte(`1`), nil)), `{"jsonrpc":"2.0","id":1,"result":null}` + "\n"},
		{"an error", string(AppendError(nil, []byte(`1`), &Error{Code: -32603, Message: "a\n\"b\""})),
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"a\n\"b\""}}` + "\n"},
		{"an error with data and no id", string(AppendError(nil, nil, &Error{Code: 1, Data: []byte(`{"x":1}`)})),
			`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"","data":{"x":1}}}` + "\n"},
		{"a request", string(AppendRequest(nil, []byte(`"x"`), "m", []byte(`[1]`))), `{"jsonrpc":"2.0","id":"x","method":"m","params":[1]}` + "\n"},
		{"a notification", string(AppendNotification(nil, "m", nil)), `{"jsonrpc":"2.0","method":"m"}` + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("got %s, want %s", tt.got, tt.want)
			}
			var m Message
			var s Scanner
			if err := s.Scan([]byte(tt.got), &m); err != nil {
				t.Error(err)
			}
		})
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("plain")
	f.Add("\x00\n\r\t\"\\\u2028\u2029\xff\xed\xa0\x80😀")
	f.Fuzz(func(t *testing.T, s string) {
		got := AppendString(nil, s)
		var back string
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		if want := string([]rune(s)); back != want {
			t.Errorf("%q returned as %q", want, back)
		}
	})
}
