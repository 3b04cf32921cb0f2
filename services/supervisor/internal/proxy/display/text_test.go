package display

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acphost/acphost/sdk/plaintext"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

func (r *rig) toolCall(line string) acp.ToolCall {
	var tc acp.ToolCall
	tc.Merge(acp.Get([]byte(line), "params", "update"))
	return tc
}

func TestText_ReplacesTerminals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, false)
		r.Created("s", "scope", "acphost-1", "/w")
		before, after := `{"type":"diff","path":"/w/f","newText":"n"}`, `{"type":"content","content":{"type":"text","text":"t"} }`
		line := r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","title":"x","content":[`+before+`,`+terminalItem("acphost-1")+`,`+after+`]}`)
		r.want(strings.Replace(line, terminalItem("acphost-1"), textLine("```\n```"), 1))
		r.handler.writes("acphost-1", "\x1b[31mone\x1b[0m\r\n10%\r20%")
		synctest.Wait()
		r.want(contentLine("c", before, textLine("```\none\n20%\n```"), after))
		for i := range 100 {
			r.handler.writes("acphost-1", fmt.Sprintf("\r%d%%", i))
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		if n := len(r.client.take()); n != 2 {
			t.Errorf("%d updates in a second, want 2", n)
		}
		r.handler.writes("acphost-1", "\r\ndone\r\n")
		r.handler.exits("acphost-1", 2)
		r.AwaitShown(t.Context(), "acphost-1")
		got := r.client.take()
		if want := contentLine("c", before, textLine("```\none\n99%\ndone\n```\nexit code 2"), after); got[len(got)-1] != want {
			t.Errorf("the end is\n%s\nwant\n%s", got[len(got)-1], want)
		}
		time.Sleep(time.Minute)
		r.want()
		// A later mention finds it as it ended.
		line = r.update("s", `{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed","content":[`+terminalItem("acphost-1")+`,`+terminalItem("acphost-1")+`]}`)
		r.want(strings.Replace(line, terminalItem("acphost-1")+`,`+terminalItem("acphost-1"),
			textLine("```\none\n99%\ndone\n```\nexit code 2")+`,`+textLine("[this terminal is shown above]"), 1))
		r.AwaitShown(t.Context(), "acphost-1")
	})
}

func TestText_StopsWhenContentIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, false)
		r.Created("s", "scope", "acphost-1", "/w")
		r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","content":[`+terminalItem("acphost-1")+`]}`)
		r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"d","content":[`+terminalItem("acphost-1")+`]}`)
		r.handler.writes("acphost-1", "x")
		synctest.Wait()
		r.client.take()
		r.update("s", `{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}`) // replaces nothing
		r.update("s", `{"sessionUpdate":"tool_call_update","toolCallId":"c","content":[{"type":"content","content":{"type":"text","text":"mine"}}]}`)
		r.client.take()
		r.handler.writes("acphost-1", "y")
		r.handler.exits("acphost-1", 0)
		r.AwaitShown(t.Context(), "acphost-1")
		r.want(contentLine("d", textLine("```\nxy\n```\nexit code 0"))) // the other tool call still shows it
		time.Sleep(time.Minute)
		r.want()
		if len(r.texts) != 0 || r.textsSize != 0 {
			t.Errorf("%d tool calls with %d bytes are kept", len(r.texts), r.textsSize)
		}
	})
}

func TestText_StopsWhenReplacedAtEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, false)
		r.Created("s", "scope", "acphost-1", "/w")
		r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","content":[`+terminalItem("acphost-1")+`]}`)
		r.client.set(func() { r.client.busy = true })
		r.handler.exits("acphost-1", 0)
		synctest.Wait() // the end is waiting for the client
		r.update("s", `{"sessionUpdate":"tool_call_update","toolCallId":"c","content":[]}`)
		r.client.set(func() { r.client.busy = false })
		r.client.take()
		r.AwaitShown(t.Context(), "acphost-1")
		time.Sleep(time.Minute)
		r.want()
	})
}

func TestText_NeverFollowsReplacement(t *testing.T) {
	// Real time: the race between the two is what is tested.
	r := newRig(t, false)
	r.Created("s", "scope", "acphost-1", "/w")
	var wg sync.WaitGroup
	defer wg.Wait()
	stop := make(chan struct{})
	defer close(stop)
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case r.handler.of("acphost-1") <- dataEvent("x"):
			}
		}
	})
	for i := range 300 {
		call := fmt.Sprint("c", i)
		r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"`+call+`","content":[`+terminalItem("acphost-1")+`]}`)
		last := r.update("s", `{"sessionUpdate":"tool_call_update","toolCallId":"`+call+`","content":[{"type":"content"}]}`)
		seen := false
		for _, l := range r.client.take() {
			if seen && strings.Contains(l, `"`+call+`"`) {
				t.Fatalf("after the agent's content came %s", l)
			}
			seen = seen || l == last
		}
		if !seen {
			t.Fatal("the agent's line is missing")
		}
	}
}

func TestText_TerminalsShareUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, false)
		r.Created("s", "scope", "acphost-1", "/w")
		r.Created("s", "scope", "acphost-2", "/w")
		r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","content":[`+terminalItem("acphost-1")+`,`+terminalItem("acphost-2")+`]}`)
		r.client.take()
		for range 100 {
			r.handler.writes("acphost-1", "a")
			r.handler.writes("acphost-2", "b")
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		if n := len(r.client.take()); n > 3 {
			t.Errorf("%d updates in a second, want 2", n)
		}
		r.handler.exits("acphost-1", 0)
		r.AwaitShown(t.Context(), "acphost-1")
		r.handler.dies("acphost-2", "SIGTERM")
		r.AwaitShown(t.Context(), "acphost-2")
		a, b := strings.Repeat("a", 100), strings.Repeat("b", 100)
		r.want(contentLine("c", textLine("```\n"+a+"\n```\nexit code 0"), textLine("```\n"+b+"\n```")),
			contentLine("c", textLine("```\n"+a+"\n```\nexit code 0"), textLine("```\n"+b+"\n```\nended by SIGTERM")))
	})
}

func TestText_LimitsSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, false)
		r.Created("s", "scope", "acphost-1", "/w")
		diff := `{"type":"diff","path":"/w/f","newText":"` + strings.Repeat("n", maxLive) + `"}`
		r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","content":[`+diff+`,`+terminalItem("acphost-1")+`]}`)
		r.client.take()
		for range 1000 {
			r.handler.writes("acphost-1", strings.Repeat("`", 4096)+"\n")
		}
		time.Sleep(10 * time.Second)
		r.want() // so much is not repeated for every piece
		r.handler.exits("acphost-1", 0)
		r.AwaitShown(t.Context(), "acphost-1")
		got := r.client.take()
		if len(got) != 1 || len(got[0]) > maxLive+maxText+3*4096 || !strings.Contains(got[0], "[earlier output is not shown]") || !strings.Contains(got[0], "exit code 0") {
			t.Errorf("got %d lines, the first %d bytes: %.200s", len(got), len(got[0]), got[0])
		}
		if n := len(r.terminals["acphost-1"].out.buf); n > keepText*5/4 {
			t.Errorf("%d bytes are kept", n)
		}
	})
}

func TestTerminals_EvictsOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, false)
		r.Created("s", "scope", "acphost-first", "/w")
		r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","content":[`+terminalItem("acphost-first")+`]}`)
		for i := range maxTerminals + 10 {
			r.Created("s", "scope", fmt.Sprint("acphost-", i), "/w")
		}
		if len(r.terminals) != maxTerminals || len(r.ids) != maxTerminals {
			t.Errorf("%d terminals (%d ids) are known, want %d", len(r.terminals), len(r.ids), maxTerminals)
		}
		if r.terminals["acphost-first"] == nil || r.terminals["acphost-0"] != nil {
			t.Error("the one that is shown was forgotten, or the oldest other one was not")
		}
		for i := range 140 {
			id := fmt.Sprint("acphost-", 1000+i)
			for range 3 {
				r.handler.writes(id, strings.Repeat("x", 64<<10))
			}
			r.handler.exits(id, 0)
			r.update("s", fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"c%d","content":[%s]}`, i, terminalItem(id)))
			r.AwaitShown(t.Context(), id)
		}
		if r.endedSize > maxEndedOutput {
			t.Errorf("%d bytes are kept of terminals that ended", r.endedSize)
		}
		r.client.take()
		line := r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"z","content":[`+terminalItem("acphost-1000")+`]}`)
		r.want(strings.Replace(line, terminalItem("acphost-1000"), textLine("[the output of this terminal is no longer available]"), 1))
	})
}

func TestPlainText_RemovesControls(t *testing.T) {
	for _, tt := range []struct{ name, raw, want string }{
		{"colours go", "\x1b[1;31mred\x1b[0m", "red"},
		{"a carriage return writes over", "abc\rX", "Xbc"},
		{"CR LF ends a line and keeps it", "abc\r\ndef", "abc\ndef"},
		{"a progress bar is its last state", "10%\r20%\r\x1b[K30%", "30%"},
		{"a line is erased whole", "abcdef\x1b[2Kx", "      x"},
		{"and up to the cursor", "abcdef\x1b[3D\x1b[1Kx", "   xef"},
		{"backspaces write over", "abc\b\bX", "aXc"},
		{"a column is gone to", "abc\x1b[2GX\x1b[9Gz", "aXc     z"},
		{"a title is dropped", "\x1b]0;title\x07a\x1b]0;t\x1b\\b", "ab"},
		{"a character set is dropped", "\x1b(Ba", "a"},
		{"a sequence that is cut is dropped", "a\x1b[3", "a"},
		{"an unfinished string hides nothing after the next sequence", "a\x1b]0;x\x1b[1mb", "ab"},
		{"bells and other controls go", "a\x07\x00b\tc\x7f", "ab\tc"},
		{"what is not UTF-8 is replaced", "a\xffb", "a\ufffdb"},
		{"a huge column takes no memory", "\x1b[999999999Gx", strings.Repeat(" ", plaintext.Columns-1) + "x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, cut := plain([]byte(tt.raw), false, true, maxText); got != tt.want || cut {
				t.Errorf("got %q (cut %v), want %q", got, cut, tt.want)
			}
		})
	}
	if got, cut := plain([]byte("rest of a line\nnew\xe2\x82"), true, false, maxText); got != "new" || !cut {
		t.Errorf("a cut piece is %q, %v", got, cut)
	}
	if got, cut := plain([]byte("1\n2\n34567"), false, true, 8); got != "2\n34567" || !cut {
		t.Errorf("the newest is %q, %v", got, cut)
	}
}

func FuzzPlainText(f *testing.F) {
	f.Add([]byte("a\x1b[1;31mb\r\n\x1b]0;t\x07\xe2\x82"), 7)
	f.Add([]byte("\x1b[99999Cx\x1b[K\b\b\r\t"), 1)
	f.Fuzz(func(t *testing.T, raw []byte, limit int) {
		limit = max(1, limit&0xfff)
		text, _ := plain(raw, limit%2 == 0, limit%3 == 0, limit)
		if len(text) > limit {
			t.Errorf("%d bytes, more than %d", len(text), limit)
		}
		if strings.ContainsAny(text, "\x1b\r\x00\x07") {
			t.Errorf("controls are left in %q", text)
		}
		var o output
		o.keep = 16
		var seen uint64
		shown := 0
		for i := 0; i < len(raw); i += 5 {
			o.add(raw[i:min(i+5, len(raw))])
			var data string
			data, seen = o.after(seen, false)
			o.discard(seen)
			shown += len(data)
		}
		data, upto := o.after(seen, true)
		if shown+len(data) != len(raw) || upto != uint64(len(raw)) {
			t.Errorf("%d of %d bytes were shown", shown+len(data), len(raw))
		}
	})
}
