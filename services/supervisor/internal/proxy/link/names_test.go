package link

import (
	"fmt"
	"strings"
	"testing"
)

func TestNames_FindsEverySpelling(t *testing.T) {
	n, other := NewNames(), NewNames()
	id := n.next("ABC")
	escaped := func(s string) string {
		var b strings.Builder
		for _, c := range s {
			fmt.Fprintf(&b, `\u%04x`, c)
		}
		return b.String()
	}
	update := func(report string) string {
		return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":` + report + `}}` + "\n"
	}
	for line, want := range map[string]bool{
		update(`{"sessionUpdate":"tool_call_update","toolCallId":"` + id + `"}`):                                           true,
		update(`{"sessionUpdate":"tool_call_update","toolCallId":"` + escaped(id) + `"}`):                                  true,
		update(`{"sessionUpdate":"tool_call_update","toolCallId":"a` + `","toolCallId":"` + id + `"}`):                     true,
		update(`{"sessionUpdate":"tool_call_update","toolCallId":"` + id + `","toolCallId":"a"}`):                          true,
		update(`{"sessionUpdate":"tool_call_update","toolcallid":"` + id + `"}`):                                           true,
		update(`{"toolCallId": "` + id[:10] + escaped(id[10:14]) + id[14:] + `"}`):                                         true,
		update(`{"toolCallId":"` + id + `\ud800"}`):                                                                        true,
		update(`{"toolCallId":"` + id[:12] + "\xff" + id[12:] + `"}`):                                                      true,
		update(`{"toolCallId":"` + id[:12] + `\u200b\ufeff\u0000` + id[12:] + `"}`):                                        true,
		update(`{"toolCallId":"` + id[:12] + "\u200b" + id[12:] + `"}`):                                                    true,
		update(`{"toolCallId":"\n` + id + `"}`):                                                                            true,
		update(`{"toolCallId":"c","x":["` + id + `"]}`):                                                                    true,
		`{"jsonrpc":"2.0","id":1,"method":"session/request_permission","params":{"toolCall":{"toolCallId":"` + id + `"}}}`: true,

		update(`{"toolCallId":"` + other.next("ABC") + `"}`):                                     false,
		update(`{"toolCallId":"acphost-1","title":"é \u00e9"}`):                                  false,
		update(`{"sessionUpdate":"agent_message_chunk","content":{"text":"it was ` + id + `"}}`): false,
		update(`{"content":{"text":"{\"toolCallId\":\"` + id + `\"}"}}`):                         false,
		update(`{"content":{"text":"\\u0022` + id + `"}}`):                                       false,
		update(`{"content":{"text":"\u0022` + id + `"}}`):                                        false,
	} {
		var scratch []byte
		if got := n.in([]byte(line), &scratch); got != want {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
	for raw, want := range map[string]bool{
		`"` + id + `"`: true, `"` + escaped(id) + `"`: true, `"` + other.next("ABC") + `"`: false, `7`: false, `null`: false,
		`"AAAAAAAAAAAAAAAAAAAAAAAAAA"`: false,
	} {
		if got := n.is([]byte(raw)); got != want {
			t.Errorf("id %s: %v, want %v", raw, got, want)
		}
	}
}

func TestNames_AreRandom(t *testing.T) {
	a, b := NewNames(), NewNames()
	if a.prefix == b.prefix || len(a.prefix) < len("acphost-")+26 {
		t.Errorf("%s, %s", a.prefix, b.prefix)
	}
	if a.next("x") == a.next("y") || !strings.HasPrefix(a.next("x"), a.prefix) {
		t.Error("names do not say what they are about")
	}
}
