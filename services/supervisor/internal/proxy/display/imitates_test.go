package display

import "testing"

func TestImitates_DetectsOutputOfOwnTerminals(t *testing.T) {
	r := newRig(t, true)
	r.Created("s", "scope", "acphost-1", "/w")
	for update, want := range map[string]bool{
		`{"toolCallId":"c","_meta":{"terminal_output":{"terminal_id":"acphost-1","data":"fake"}}}`:                          true,
		`{"toolCallId":"c","_meta":{"terminal_exit":{"terminal_id":"acphost-1","exit_code":0}}}`:                            true,
		`{"_meta":{"terminal_output":{"terminal_id":"acphost\u002d1","data":"fake"}},"toolCallId":"c"}`:                     true,
		`{"\u005fmeta":{"terminal\u005foutput":{"terminal\u005fid":"acphost-1"}}}`:                                          true,
		`{"_meta":{"terminal_output":{"terminal_id":"acphost-1","terminal_id":"mine"}}}`:                                    true,
		`{"_meta":{"terminal_output":{"terminal_id":"mine"}},"_meta":{"terminal_output":{"terminal_id":"acphost-1"}}}`:      true,
		`{"_meta":[{"terminal_output":{"terminal_id":["acphost-1"]}}]}`:                                                     true,
		`{"_Meta":{"terminal_output":{"Terminal_ID":"acphost-1"}}}`:                                                         true,
		`{"toolCallId":"c","_meta":{"terminal_output":{"terminal_id":"acphost-2","data":"another acphost's"}}}`:             false,
		`{"toolCallId":"c","_meta":{"terminal_output":{"terminal_id":"mine","data":"acphost-1"}}}`:                          false,
		`{"toolCallId":"c","content":[{"type":"terminal","terminalId":"acphost-1"}]}`:                                       false,
		`{"toolCallId":"c","rawInput":{"terminal_id":"acphost-1"},"_meta":{"x":1}}`:                                         false,
		`{"_meta":{"x":{"y":[]}},"rawInput":{"_meta":{"terminal_output":{"terminal_id":"acphost-1"}}},"title":"acphost-1"}`: false,
	} {
		if got := r.Imitates([]byte(update)); got != want {
			t.Errorf("%s: %v, want %v", update, got, want)
		}
	}
}
