package display

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMetadata_AnnouncesTerminalBeforeFirstUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		r.Created("s", "scope", "acphost-1", "/w")
		first := r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","title":"make \u00e9","kind":"execute","status":"pending","locations":[{"path":"/w/f"}],"rawInput":{"command":"make"}}`)
		line := r.update("s", `{"sessionUpdate":"tool_call_update" , "status":"in_progress","toolCallId":"c","content":[{"type":"content","content":{"type":"text","text":"t"}},`+terminalItem("acphost-1")+`]}`)
		r.want(first,
			introLine("c", `,"title":"make é","kind":"execute","status":"in_progress"`,
				`[{"type":"content","content":{"type":"text","text":"t"}},`+terminalItem("acphost-1")+`]`,
				`,"locations":[{"path":"/w/f"}],"rawInput":{"command":"make"}`, "acphost-1"),
			line)
		again := r.update("s", `{"sessionUpdate":"tool_call_update","toolCallId":"c","content":[`+terminalItem("acphost-1")+`]}`)
		other := r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c2","title":"x","content":[`+terminalItem("acphost-1")+`]}`)
		r.want(again, other)
		r.handler.writes("acphost-1", "out")
		synctest.Wait()
		r.want(outputLine("c", "acphost-1", "out")) // once, though two tool calls show it
		if len(r.handler.seen) != 1 || r.handler.seen[0].GetScope() != "scope" {
			t.Errorf("watched by %v, want one watch with the terminal's scope", r.handler.seen)
		}
	})
}

func TestMetadata_CoalescesOutputAtCharacters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		r.Created("s", "scope", "acphost-1", "/w")
		r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","title":"x","content":[`+terminalItem("acphost-1")+`]}`)
		r.client.take()
		r.handler.writes("acphost-1", "\x1b[1ma\xc3")
		synctest.Wait()
		r.want(outputLine("c", "acphost-1", "\x1b[1ma")) // the first at once
		r.handler.writes("acphost-1", "\xa9 \xf0\x9f")
		r.handler.writes("acphost-1", "\x98\x80\xe2\x82")
		synctest.Wait()
		r.want()
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		r.want(outputLine("c", "acphost-1", "é 😀"))
		time.Sleep(time.Second)
		r.want() // half a character is nothing to tell of
		r.handler.exits("acphost-1", 3)
		synctest.Wait()
		r.want(outputLine("c", "acphost-1", "\ufffd\ufffd"), exitLine("c", "acphost-1", "3", "null"))

		r.Created("s", "scope", "acphost-2", "/w")
		r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"d","title":"x","content":[`+terminalItem("acphost-2")+`]}`)
		r.client.take()
		for range 1000 {
			r.handler.writes("acphost-2", "line\n")
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if n := len(r.client.take()); n < 19 || n > 21 {
			t.Errorf("the client got %d updates in a second, want about 20", n)
		}
		r.handler.dies("acphost-2", "SIGKILL")
		synctest.Wait()
		got := r.client.take()
		if want := exitLine("d", "acphost-2", "null", `"SIGKILL"`); got[len(got)-1] != want {
			t.Errorf("the end is %s, want %s", got[len(got)-1], want)
		}
	})
}

func TestMetadata_AnnouncesSeveralTerminals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		r.Created("s", "scope", "acphost-1", "/w")
		r.Created("s", "scope", "acphost-2", "/w")
		one, two, own := terminalItem("acphost-1"), terminalItem("acphost-2"), terminalItem("agents-own")
		line := r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","content":[`+own+`,`+one+`,`+two+`,`+one+`]}`)
		r.want(
			introLine("c", `,"title":"Terminal"`, `[`+own+`,`+one+`,`+one+`]`, ``, "acphost-1"),
			introLine("c", `,"title":"Terminal"`, `[`+own+`,`+one+`,`+two+`,`+one+`]`, ``, "acphost-2"),
			line)
	})
}

func TestMetadata_QuestionAnnouncesTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		r.Created("s", "scope", "acphost-1", "/w")
		line := `{"id":1,"method":"session/request_permission","params":{"sessionId":"s","options":[],"toolCall":{"toolCallId":"c","title":"run","content":[` + terminalItem("acphost-1") + `]}}}`
		r.forward("s", line, "params", "toolCall")
		r.want(introLine("c", `,"title":"run"`, `[`+terminalItem("acphost-1")+`]`, ``, "acphost-1"), line)
	})
}

func TestAwaitShown_WaitsForEndAtClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		r.Created("s", "scope", "acphost-1", "/w")
		r.AwaitShown(t.Context(), "acphost-1") // nobody shows it: at once
		r.AwaitShown(t.Context(), "unheard-of")
		r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","content":[`+terminalItem("acphost-1")+`]}`)
		r.handler.writes("acphost-1", "begin ")
		synctest.Wait()
		r.client.take()
		settled := make(chan struct{})
		go func() { r.AwaitShown(t.Context(), "acphost-1"); close(settled) }()
		synctest.Wait()
		select {
		case <-settled:
			t.Fatal("settled before the end")
		default:
		}
		r.client.set(func() { r.client.busy = true })
		r.handler.writes("acphost-1", "end")
		r.handler.exits("acphost-1", 0)
		synctest.Wait()
		select {
		case <-settled:
			t.Fatal("settled before the client was told")
		default:
		}
		r.client.set(func() { r.client.busy = false })
		<-settled
		r.want(outputLine("c", "acphost-1", "end"), exitLine("c", "acphost-1", "0", "null"))
		r.AwaitShown(t.Context(), "acphost-1")
	})
}

func TestMetadata_WaitsForOtherWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		r.Created("s", "scope", "acphost-1", "/w")
		r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","content":[`+terminalItem("acphost-1")+`]}`)
		r.client.take()
		r.client.set(func() { r.client.busy = true })
		for range 100 {
			r.handler.writes("acphost-1", strings.Repeat("x", 64<<10))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		r.want()
		r.mu.Lock()
		if n := cap(r.terminals["acphost-1"].out.buf); n > 1<<20 {
			t.Errorf("%d bytes wait for the client", n)
		}
		r.mu.Unlock()
		r.handler.exits("acphost-1", 0)
		started := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r.AwaitShown(ctx, "acphost-1")
		if took := time.Since(started); took > 1100*time.Millisecond {
			t.Errorf("the end took %v", took)
		}
		got := r.client.take()
		if len(got) != 2 || !strings.Contains(got[0], "bytes of output are not shown here]") || got[1] != exitLine("c", "acphost-1", "0", "null") {
			t.Errorf("got %d lines: %.300q", len(got), got)
		}
	})
}

func TestAwaitShown_StuckClientTimesOut(t *testing.T) {
	for _, metadata := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, metadata)
			r.Created("s", "scope", "acphost-1", "/w")
			r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","content":[`+terminalItem("acphost-1")+`]}`)
			deaf := make(chan int)
			r.client.set(func() { r.client.deaf = deaf })
			r.handler.writes("acphost-1", "x")
			r.handler.exits("acphost-1", 0)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			r.AwaitShown(ctx, "acphost-1")
			if ctx.Err() == nil {
				t.Error("settled though the client read nothing")
			}
			started := time.Now()
			r.AwaitShown(t.Context(), "acphost-1")
			if took := time.Since(started); took > 0 {
				t.Errorf("the terminal was waited for again, for %v", took)
			}
			r.Close()
			if took := time.Since(started); took > closePatience {
				t.Errorf("closing took %v", took)
			}
			close(deaf) // the stream ends
		})
	}
}

func TestAwaitShown_CancelKeepsTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		r.Created("s", "scope", "acphost-1", "/w")
		r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","content":[`+terminalItem("acphost-1")+`]}`)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.AwaitShown(ctx, "acphost-1")
		go func() {
			time.Sleep(time.Minute)
			r.handler.exits("acphost-1", 0)
		}()
		started := time.Now()
		r.AwaitShown(t.Context(), "acphost-1")
		if took := time.Since(started); took < time.Minute {
			t.Errorf("settled after %v, before the exit", took)
		}
	})
}

func TestMetadata_WatchErrorEndsTerminal(t *testing.T) {
	for _, tt := range []struct {
		name   string
		refuse error
		down   error
		reason string
	}{
		{"a handler that does not stream", status.Error(codes.Unimplemented, "no"), nil, "the terminal handler does not show what its terminals write"},
		{"a terminal released long ago", status.Error(codes.NotFound, "no"), nil, "the output of this terminal is no longer available"},
		{"a handler that is down", nil, errors.New("in backoff"), "the terminal handler went away"},
		{"a handler that dies", status.Error(codes.Unavailable, "EOF"), nil, "the terminal handler went away"},
		{"a stream that ends without an exit", io.EOF, nil, "the output of this terminal broke off"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, true)
				r.handler.refuse, r.down = tt.refuse, tt.down
				r.Created("s", "scope", "acphost-1", "/w")
				r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","content":[`+terminalItem("acphost-1")+`]}`)
				r.client.take()
				r.AwaitShown(t.Context(), "acphost-1")
				r.want(outputLine("c", "acphost-1", "\r\n[acphost: "+tt.reason+"]\r\n"), exitLine("c", "acphost-1", "null", "null"))

				r = newRig(t, false)
				r.handler.refuse, r.down = tt.refuse, tt.down
				r.Created("s", "scope", "acphost-1", "/w")
				r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","content":[`+terminalItem("acphost-1")+`]}`)
				r.client.take()
				r.AwaitShown(t.Context(), "acphost-1")
				r.want(contentLine("c", textLine("```\n```\n"+tt.reason)))
			})
		})
	}
}

func TestMetadata_HandlerEndKeepsOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		r.Created("s", "scope", "acphost-1", "/w")
		r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","content":[`+terminalItem("acphost-1")+`]}`)
		r.client.take()
		r.handler.writes("acphost-1", "so far")
		r.handler.drops("acphost-1", 7)
		r.handler.of("acphost-1") <- status.Error(codes.Unavailable, "the connection is lost")
		r.AwaitShown(t.Context(), "acphost-1")
		got := strings.Join(r.client.take(), "\n")
		for _, want := range []string{`"so far`, `\r\n[acphost: 7 bytes of output are not shown here]\r\n`, `[acphost: the terminal handler went away]\r\n`, exitLine("c", "acphost-1", "null", "null")} {
			if !strings.Contains(got, want) {
				t.Errorf("got %s\nwant in it %s", got, want)
			}
		}
	})
}

func TestMetadata_EndedTerminalIsShownWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		r.Created("s", "scope", "acphost-1", "/w")
		r.handler.writes("acphost-1", "all of it")
		r.handler.exits("acphost-1", 0)
		r.AwaitShown(t.Context(), "acphost-1")
		line := r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","status":"completed","content":[`+terminalItem("acphost-1")+`]}`)
		r.AwaitShown(t.Context(), "acphost-1")
		r.want(introLine("c", `,"title":"Terminal","status":"completed"`, `[`+terminalItem("acphost-1")+`]`, ``, "acphost-1"), line,
			outputLine("c", "acphost-1", "all of it"), exitLine("c", "acphost-1", "0", "null"))
	})
}

func TestDisplay_ForeignPassesAndForgottenBecomesText(t *testing.T) {
	gone := textLine("[the output of this terminal is no longer available]")
	for _, metadata := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, metadata)
			r.Created("another session", "scope", "acphost-2", "/w")
			for _, update := range []string{
				`{"sessionUpdate":"tool_call","toolCallId":"c","content":[{"type":"terminal","terminalId":"agents-own"}]}`,
				`{"sessionUpdate":"tool_call","toolCallId":"c","content":[{"type":"terminal"},{"type":"terminal","terminalId":7},null,1,"terminal",[]]}`,
				`{"sessionUpdate":"tool_call","toolCallId":"c","content":{"type":"terminal","terminalId":"acphost-1"}}`,
				`{"sessionUpdate":"tool_call","toolCallId":"c","content":null,"x":"terminal"}`,
				`{"sessionUpdate":"tool_call","content":[{"type":"terminal","terminalId":"acphost-1"}]}`,
				`{"sessionUpdate":"tool_call","toolCallId":"c","content":[{"type":"terminal","terminalId":"acphost-1","a":1,"a":2}]}`,
				`{"sessionUpdate":"tool_call","toolCallId":"c","content":[],"rawInput":{"terminal":"acphost-1"}}`,
			} {
				line := r.update("s", update)
				r.want(line)
			}
			line := r.update("s", `{"sessionUpdate":"tool_call","toolCallId":"c","content":[ {"type":"diff", "path":"/w/f"} ,`+terminalItem("acphost-1")+`,`+terminalItem("acphost-2")+`]}`)
			r.want(strings.Replace(line, `[ {"type":"diff", "path":"/w/f"} ,`+terminalItem("acphost-1")+`,`+terminalItem("acphost-2")+`]`,
				`[{"type":"diff", "path":"/w/f"},`+gone+`,`+gone+`]`, 1))
			time.Sleep(time.Minute)
			r.want()
		})
	}
}

func TestDisplay_OutputFollowsFirstUse(t *testing.T) {
	for _, metadata := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, metadata)
			r.Created("s", "scope", "acphost-1", "/w")
			r.handler.writes("acphost-1", "x")
			r.handler.exits("acphost-1", 0)
			line := `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","content":[` + terminalItem("acphost-1") + `]}}}`
			var call = r.toolCall(line)
			settled := make(chan struct{})
			err := r.Forward("s", []byte(line+"\n"), call, func(bufs ...[]byte) error {
				go func() { r.AwaitShown(t.Context(), "acphost-1"); close(settled) }()
				time.Sleep(time.Hour) // the client takes its time
				select {
				case <-settled:
					t.Error("settled before the client saw the terminal")
				default:
				}
				return r.client.Send(bufs...)
			}, "params", "update")
			if err != nil {
				t.Fatal(err)
			}
			<-settled
			got := r.client.take()
			if len(got) < 2 || metadata && got[1] != line || !metadata && !strings.Contains(got[0], `"toolCallId":"c","content":[`) {
				t.Errorf("the client got %q", got)
			}
		})
	}
}

func TestDisplay_SendErrorShowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		r.Created("s", "scope", "acphost-1", "/w")
		line := `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"c","content":[` + terminalItem("acphost-1") + `]}}}`
		gone := errors.New("the front is gone")
		if err := r.Forward("s", []byte(line+"\n"), r.toolCall(line), func(...[]byte) error { return gone }, "params", "update"); !errors.Is(err, gone) {
			t.Errorf("err = %v, want what send returned", err)
		}
		r.AwaitShown(t.Context(), "acphost-1")
		if len(r.handler.seen) > 0 {
			t.Error("the terminal is watched")
		}
	})
}
