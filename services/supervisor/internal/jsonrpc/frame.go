package jsonrpc

import (
	"strconv"
	"unicode/utf8"
)

// AppendResult appends the response, with its line feed, that answers the request id with result. Both are raw JSON;
// nil stands for null.
func AppendResult(dst, id, result []byte) []byte {
	dst = AppendResultPrefix(dst, id)
	dst = appendRaw(dst, result)
	return append(dst, '}', '\n')
}

// AppendResultPrefix appends a response up to where its result stands; a value, "}" and a line feed complete it.
func AppendResultPrefix(dst, id []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = appendRaw(dst, id)
	return append(dst, `,"result":`...)
}

// AppendError appends the response, with its line feed, that answers the request id with an error. The id is raw JSON;
// nil stands for null.
func AppendError(dst, id []byte, e *Error) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = appendRaw(dst, id)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, e.Message)
	if len(e.Data) > 0 {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, '}', '}', '\n')
}

// AppendRequest appends a request with its line feed. The id and params are raw JSON; nil params are left out.
func AppendRequest(dst, id []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = appendRaw(dst, id)
	dst = append(dst, ',')
	return appendCall(dst, method, params)
}

// AppendNotification appends a notification with its line feed. The params are raw JSON; nil params are left out.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0",`...)
	return appendCall(dst, method, params)
}

func appendCall(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `"method":`...)
	dst = AppendString(dst, method)
	if params != nil {
		dst = append(dst, `,"params":`...)
		dst = append(dst, params...)
	}
	return append(dst, '}', '\n')
}

func appendRaw(dst, value []byte) []byte {
	if value == nil {
		return append(dst, "null"...)
	}
	return append(dst, value...)
}

// AppendMembers appends members that are strings behind others, each with a comma before it: names, each followed by its
// value. Those that are empty are left out.
func AppendMembers(dst []byte, members ...string) []byte {
	for i := 0; i < len(members); i += 2 {
		if members[i+1] != "" {
			dst = AppendString(append(append(append(dst, `,"`...), members[i]...), `":`...), members[i+1])
		}
	}
	return dst
}

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD. U+2028 and U+2029 are escaped: some
// peers take them for the end of a line.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[from:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			from = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			dst = append(dst, s[from:i]...)
			dst = append(dst, "\ufffd"...)
			from = i + 1
		} else if r == '\u2028' || r == '\u2029' {
			dst = append(dst, s[from:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hex[r&15])
			from = i + n
		}
		i += n
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
