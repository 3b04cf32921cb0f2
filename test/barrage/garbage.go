package barrage

import (
	"fmt"
	"strings"
)

// The JSON-RPC error codes of acphost's answers.
const (
	parse     = -32700
	invalid   = -32600
	internal  = -32603
	badParams = -32602
	missing   = -32002
	cancelled = -32800
)

// garbage appends a line that must not be forwarded, or an error without a request, which is forwarded.
func (b *barrage) garbage(s *side, lines []byte, n int, mark, session, key string) []byte {
	params := fmt.Sprintf(`"params":{"sessionId":%q,"_k":%q}`, session, mark)
	// acphost does not report an invalid line to an agent, which may have printed a word. It reports it to a client.
	drop := func(line string, code int) []byte {
		if s == b.client && code != 0 {
			s.wantNulls[code]++
		}
		return b.send(s, lines, &message{mark: mark, never: true, line: line})
	}
	null := func(line string) []byte { // it reports this to both, with the id null
		s.wantNulls[invalid]++
		return b.send(s, lines, &message{mark: mark, never: true, line: line})
	}
	refuse := func(format string, code int) []byte {
		r := &request{by: s, id: b.id(s, n), kind: broken, refused: code}
		if r.id == "null" {
			r.id = fmt.Sprint(n)
		}
		return b.send(s, lines, &message{mark: mark, never: true, request: r, line: strings.Replace(format, "ID", r.id, 1)})
	}
	if s == b.agent {
		switch s.random.IntN(24) {
		case 0:
			return refuse(`{"jsonrpc":"2.0","id":ID,"method":"fs/read_text_file","params":{"sessionId":"s1","path":"/a","path":"/b"}}`, invalid)
		case 1:
			return refuse(`{"jsonrpc":"2.0","id":ID,"method":"fs/read_text_file","params":{"sessionId":"nobody","path":"/a"}}`, badParams)
		case 2:
			return drop(fmt.Sprintf(`{"jsonrpc":"2.0","method":"fs/write_text_file",%s}`, params), 0)
		case 3:
			return refuse(`{"jsonrpc":"2.0","id":ID,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"t"},"options":7}}`, badParams)
		}
	}
	half := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"_z/ask",%s}`, n, params)
	switch s.random.IntN(20) {
	case 0:
		return drop("Loading the model ... "+mark, parse)
	case 1:
		return drop(half[:1+s.random.IntN(len(half)-2)], parse)
	case 2:
		return drop(strings.Replace(half, "_z/ask", "_z/a\x00sk", 1), parse)
	case 3:
		return drop(`{"method":"_z/deep","params":{"x":`+strings.Repeat("[", 10_001)+strings.Repeat("]", 10_001)+`}}`, parse)
	case 4:
		return drop("\ufeff"+half, parse)
	case 5:
		return drop(`{"jsonrpc":"2.0"}`, invalid)
	case 6:
		return drop([]string{`42`, `"text"`, `null`, `true`}[n%4], invalid)
	case 7:
		return drop(strings.Repeat(" ", n%3), 0)
	case 8:
		return drop(fmt.Sprintf(`{"method":"_z/notify","params":{"sessionId":%q,"sessionId":"s0","_k":%q}}`, session, mark), 0)
	case 9:
		// An answer without a request.
		return drop(fmt.Sprintf(`{"jsonrpc":"2.0","id":"nobody%d","result":{"_k":%q}}`, n, mark), 0)
	case 10:
		return drop(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d77777,"error":{"code":-32000,"message":%q}}`, n, mark), 0)
	case 11:
		return null("[" + half + "," + half + "]")
	case 12:
		return null("[]")
	case 13:
		return null(strings.Replace(half, `"id"`, `"id":7,"id"`, 1))
	case 14:
		return null(fmt.Sprintf(`{"jsonrpc":"2.0","id":[%d],"method":"_z/ask",%s}`, n, params))
	case 15:
		return refuse(`{"jsonrpc":"2.0","id":ID,"method":"_z/ask","Method":"_z/other"}`, invalid)
	case 16:
		return refuse(`{"jsonrpc":"2.0","id":ID,"method":7}`, invalid)
	case 17:
		return refuse(`{"jsonrpc":"2.0","id":ID,"method":"_z/ask","result":{}}`, invalid)
	case 18:
		if n%30 == 0 {
			return refuse(`{"jsonrpc":"2.0","method":"_z/ask","params":{"x":"`+strings.Repeat("x", b.MaxMessage)+`"},"id":ID}`, invalid)
		}
	}
	return b.send(s, lines, &message{mark: mark, session: "-", must: true,
		line: fmt.Sprintf(`{"jsonrpc":"2.0","error":{"code":-32700,"message":"what was that? %s"}}`, mark)})
}
