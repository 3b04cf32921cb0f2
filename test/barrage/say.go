package barrage

import (
	"fmt"
	"strings"
)

// kind is a kind of request: the method, or its defect.
type kind string

const (
	ask         kind = "_z/ask" // forwarded
	prompt      kind = "session/prompt"
	permission  kind = "session/request_permission"
	elicitation kind = "elicitation/create"
	read        kind = "fs/read_text_file"
	write       kind = "fs/write_text_file"
	wait        kind = "terminal/wait_for_exit"
	gated       kind = "gated"  // acphost asks the user, and forwards it
	broken      kind = "broken" // rejected
)

// options are the options of a permission request.
const options = `[{"optionId":"a","name":"Yes","kind":"allow_once"},{"optionId":"r","name":"No","kind":"reject_once"}]`

// Folders below the root, by the policy's verdict.
const (
	allowed = "allow"
	denied  = "deny"
	asked   = "ask"
)

// id returns an id that no request of the side had before, of any JSON type that is possible.
func (b *barrage) id(s *side, n int) string {
	switch s.random.IntN(9) {
	case 0:
		return fmt.Sprintf(`"%d"`, n) // a number and the equal string are two ids
	case 1:
		return fmt.Sprintf(`-%d`, n)
	case 2:
		return fmt.Sprintf(`%d.5`, n)
	case 3:
		return fmt.Sprintf(`99999999999999999999%d`, n)
	case 4:
		return fmt.Sprintf(`"\u0073%d"`, n)
	case 5:
		return fmt.Sprintf(`"%s%d"`, strings.Repeat("long ", 40), n)
	case 6:
		return fmt.Sprintf(`%de400`, 10*n+1) // no other number has this spelling
	case 7:
		// Errors with the id null are ambiguous after a side has closed its output.
		if len(s.open["null"]) == 0 && b.Closer == Neither {
			return "null"
		}
	}
	return fmt.Sprint(n)
}

// send appends a line to the lines to write, and records its expected result.
func (b *barrage) send(s *side, lines []byte, m *message) []byte {
	b.stats.Frames++
	b.moves++
	s.left--
	if m.mark != "" {
		b.sent[m.mark] = m
	}
	if m.session == "" && (m.must || !m.never) {
		m.session = " "
	}
	if m.session != "-" && !m.never {
		s.lines[m.session] = append(s.lines[m.session], m)
	}
	if m.never {
		b.stats.Broken++
	}
	if r := m.request; r != nil {
		b.stats.Requests++
		s.open[r.id] = append(s.open[r.id], r)
		s.all = append(s.all, r)
	}
	b.trace.add(s.name, ">", []byte(m.line))
	return append(append(lines, m.line...), '\n')
}

// say appends a new random message of the side.
func (b *barrage) say(s *side, lines []byte) []byte {
	s.number++
	n := s.number
	mark := fmt.Sprintf("~%s%d~", s.name[:1], n)
	session := s.random.IntN(sessions)
	name := fmt.Sprintf("s%d", session)
	key := name
	if s == b.client {
		key = "" // all its messages are in one order
	}
	chance := s.random.IntN(100)
	if s == b.client && chance >= 30 && chance < 70 {
		return b.asClient(s, lines, n, mark, session, chance)
	}
	switch {
	case chance < 8: // messages that both sides send
		return b.send(s, lines, &message{mark: mark, session: key, must: true,
			line: fmt.Sprintf(`{"jsonrpc":"2.0","method":"_z/notify","params":{"sessionId":%q,"_k":%q}}`, name, mark)})
	case chance < 18:
		r := &request{by: s, id: b.id(s, n), kind: ask, session: session}
		lines = b.send(s, lines, &message{mark: mark, session: key, must: s == b.client, request: r, line: b.asks(r, mark)})
		if r.id == fmt.Sprint(n) && len(s.all) < maxOpen { // as a string it is another id
			other := &request{by: s, id: fmt.Sprintf("%q", r.id), kind: ask, session: session}
			mark = fmt.Sprintf("~%s%dt~", s.name[:1], n)
			lines = b.send(s, lines, &message{mark: mark, session: key, must: s == b.client, request: other, line: b.asks(other, mark)})
		}
		return lines
	case chance < 20: // an id that is in use, or was recently
		if r := s.anyOpen(); b.Closer == Neither && r != nil && r.kind == ask && !r.shared && !r.doubled && r.id != "null" {
			r.shared = true
			again := &request{by: s, id: r.id, kind: ask, session: session, shared: true, again: true}
			return b.send(s, lines, &message{mark: mark, session: key, request: again, line: b.asks(again, mark)})
		}
	case chance < 24: // it cancels a request
		if r := s.anyOpen(); r != nil && r.kind != broken && r.id != "null" {
			for _, same := range s.open[r.id] {
				same.given = true
			}
			m := &message{mark: mark, session: "-", about: r}
			if s == b.client {
				m.session, m.must = key, true
			}
			m.line = fmt.Sprintf(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%s,"_k":%q}}`, r.id, mark)
			return b.send(s, lines, m)
		}
	case chance < 30:
		return b.garbage(s, lines, n, mark, name, key)
	}
	if s == b.agent {
		return b.asAgent(s, lines, n, mark, session, chance)
	}
	return b.send(s, lines, &message{mark: mark, must: true, line: b.odd(s, n, "_z/odd", mark, name)})
}

func (b *barrage) asks(r *request, mark string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"_z/ask","params":{"sessionId":"s%d","_k":%q}}`, r.id, r.session, mark)
}

func (s *side) anyOpen() *request {
	if len(s.all) == 0 {
		return nil
	}
	return s.all[s.random.IntN(len(s.all))]
}

// asClient appends a message that only clients send.
func (b *barrage) asClient(s *side, lines []byte, n int, mark string, session, chance int) []byte {
	switch {
	case chance < 40 && !b.prompting[session]:
		b.prompting[session] = true
		r := &request{by: s, id: b.id(s, n), kind: prompt, session: session}
		return b.send(s, lines, &message{mark: mark, must: true, request: r,
			line: fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"session/prompt","params":{"sessionId":"s%d","prompt":[],"_k":%q}}`, r.id, session, mark)})
	case chance < 44 && session >= sessions/2:
		b.cancelledTurns[session] = true
		return b.send(s, lines, &message{mark: mark, must: true,
			line: fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s%d","_k":%q}}`, session, mark)})
	case chance < 46: // a notification of acphost with a name of the agent
		return b.send(s, lines, &message{mark: mark, must: true,
			line: fmt.Sprintf(`{"jsonrpc":"2.0","method":"fs/read_text_file","params":{"sessionId":"s%d","path":"/etc/passwd","_k":%q}}`, session, mark)})
	}
	return b.send(s, lines, &message{mark: mark, must: true, line: b.odd(s, n, "_z/note", mark, fmt.Sprintf("s%d", session))})
}

// asAgent appends a message that only agents send.
func (b *barrage) asAgent(s *side, lines []byte, n int, mark string, session, chance int) []byte {
	name := fmt.Sprintf("s%d", session)
	request := func(k kind, params string) []byte {
		r := &request{by: s, id: b.id(s, n), kind: k, session: session}
		folder, file := asked, fmt.Sprintf("w%d", n)
		if s.random.IntN(3) > 0 {
			folder, file = denied, "x"
			if s.random.IntN(2) > 0 {
				folder, file = allowed, fmt.Sprintf("f%d", n%10)
			}
		}
		m := &message{mark: mark, session: name, request: r}
		method := string(k)
		switch k {
		case gated:
			m.session, method = "-", b.Gated
		case read, write, wait: // answered by a handler, so it needs no mark
			m.never = true
		}
		r.subject = folder + "/" + file
		m.line = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{"sessionId":%q,"_k":%q,%s}}`, r.id, method, name, mark,
			strings.NewReplacer("PATH", fmt.Sprintf("%q", b.Root+"/"+r.subject), "NAME", fmt.Sprintf("%q", file), "NUMBER", fmt.Sprint(n)).Replace(params))
		if lines = b.send(s, lines, m); k == wait { // it does not end by itself
			r.given = true
			lines = b.send(s, lines, &message{session: "-", never: true,
				line: fmt.Sprintf(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%s}}`, r.id)})
		}
		return lines
	}
	switch {
	case chance < 35:
		return request(permission, `"toolCall":{"toolCallId":"qNUMBER","title":"look","kind":"read","locations":[{"path":PATH}],"rawInput":{"path":PATH}},"options":`+options)
	case chance < 38:
		return request(elicitation, `"mode":"form","message":"who?","requestedSchema":{"type":"object","properties":{}}`)
	case chance < 44:
		return request(read, `"path":PATH`)
	case chance < 47:
		return request(write, `"path":PATH,"content":NAME`) // the content equals the name for every writer
	case chance < 48 && session == 0:
		return request(wait, fmt.Sprintf(`"terminalId":%q`, b.agent.terminal))
	case chance < 50 && b.Gated != "":
		return request(gated, `"n":NUMBER`)
	case chance < 60:
		update := fmt.Sprintf(`{"sessionUpdate":"tool_call","toolCallId":"u%d","title":"x","kind":"other","status":"in_progress"}`, n)
		if n%2 == 1 {
			update = fmt.Sprintf(`{"sessionUpdate":"tool_call_update","toolCallId":"u%d","status":"completed"}`, n-1)
		}
		return b.send(s, lines, &message{mark: mark, session: name, must: true,
			line: fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":%s,"_k":%q}}`, name, update, mark)})
	case chance < 65:
		return b.send(s, lines, &message{mark: mark, session: name, must: true, line: b.odd(s, n, "session/update", mark, name)})
	}
	return b.send(s, lines, &message{mark: mark, session: name, must: true, line: fmt.Sprintf(
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"word %d"}},"_k":%q}}`,
		name, n, mark)})
}

// odd returns a valid but unusual message, which is forwarded unchanged.
func (b *barrage) odd(s *side, n int, method, mark, session string) string {
	head := `{"jsonrpc":"2.0","method":` + fmt.Sprintf("%q", method)
	params := fmt.Sprintf(`"sessionId":%q,"_k":%q`, session, mark)
	switch s.random.IntN(10) {
	case 0:
		return fmt.Sprintf(`{"jsonrpc":"1.0","method":%q,"params":{%s}}`, method, params)
	case 1:
		return fmt.Sprintf(`  {"params":{%s} , "method":%q}`+"\r", params, method)
	case 2:
		return head + `,"params":{` + params + `,"x":"` + "\xff\xfe\xc3(\xed\xa0\x80" + `"}}` // not UTF-8
	case 3:
		return head + `,"params":{` + params + `,"x":"\u0000 \ud800 \u2028"}}`
	case 4:
		return head + `,"params":{` + params + `,"x":[1e400,-0.0,` + strings.Repeat("9", 400) + `,1E-9999]}}`
	case 5:
		return head + `,"params":{` + params + `,"x":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}}`
	case 6:
		if n%40 == 0 {
			return head + `,"params":{` + params + `,"x":"` + strings.Repeat("x", 500_000) + `"}}`
		}
		return head + `,"params":{` + params + `,"x":"` + strings.Repeat("y", 5000) + `"}}`
	case 7:
		return head + `,"params":{` + params + `,"x":{"a":1,"a":2,"id":7,"result":1}},"_extra":[null]}`
	case 8:
		return head + `,"params":{` + params + "},\"x\":\"\u2028\u2029\"}"
	}
	return head + `,"params":{"x":{"sessionId":"other"},` + params + `}}`
}
