package e2e

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// teller is an agent whose turns send "first half, second half". Its flags determine the messages and their times.
func teller(args []string) int {
	flags := flag.NewFlagSet("teller", flag.ContinueOnError)
	late := flags.Duration("late", -1, "say the second half so long after the answer to the prompt; negative: before it")
	early := flags.String("early", "", "say this before the answer to session/new")
	filler := flags.Int("size", 0, "the bytes of a further message in the turn, with its line feed")
	idle := flags.Bool("idle", false, "report behind all of it that it is idle, as agents of ACP v2 do")
	hangs := flags.Bool("hangs", false, "answer no prompt")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	out := bufio.NewWriter(os.Stdout)
	write := func(format string, args ...any) {
		fmt.Fprintf(out, format+"\n", args...)
		_ = out.Flush()
	}
	const chunk = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}}}`
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return 0
		}
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(line, &m) != nil {
			return 1
		}
		switch m.Method {
		case "initialize":
			write(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"fork":{},"resume":{}}}}}`, m.ID)
		case "session/new", "session/resume", "session/fork":
			if *early != "" {
				write(chunk, *early)
			}
			write(`{"jsonrpc":"2.0","id":%s,"result":{"sessionId":"s1"}}`, m.ID)
		case "session/prompt":
			if *hangs {
				continue
			}
			write(chunk, "first half, ")
			if *filler > 0 {
				const around = len(chunk) - len("%s") + len("\n")
				write(chunk, strings.Repeat("x", *filler-around))
			}
			if *late < 0 {
				write(chunk, "second half")
			}
			write(`{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn"}}`, m.ID)
			if *late >= 0 {
				time.Sleep(*late)
				write(chunk, "second half")
			}
			if *idle {
				write(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"state_update","state":"idle"}}}`)
			}
		default:
			if m.ID != nil && m.Method != "" {
				write(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}`, m.ID)
			}
		}
	}
}
