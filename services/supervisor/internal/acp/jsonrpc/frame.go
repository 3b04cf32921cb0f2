package jsonrpc

import (
	"strconv"
	"unicode/utf8"
)

// AppendResult appends the response to the request id, with its line feed. Both are raw JSON. Nil means null.
func AppendResult(dst, id, result []byte) []byte {
	dst = AppendResultPrefix(dst, id)
	dst = appendRaw(dst, result)
	return append(dst, '}', '\n')
}

// AppendResultPrefix appends a response up to its result. The caller completes it with a value, "}" and a line feed.
func AppendResultPrefix(dst, id []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = appendRaw(dst, id)
	return append(dst, `,"result":`...)
}

// AppendError appends the error response to the request id, with its line feed. The id is raw JSON. Nil means null.
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

// AppendRequest appends a request with its line feed. The id and params are raw JSON. Nil params are omitted.
func AppendRequest(dst, id []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = appendRaw(dst, id)
	dst = append(dst, ',')
	return appendCall(dst, method, params)
}

// AppendNotification appends a notification with its line feed. The params are raw JSON. Nil params are omitted.
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

// AppendMembers appends members with string values to other members, each after a comma. members are names, each
// followed by its value. Empty values are omitted.
func AppendMembers(dst []byte, members ...string) []byte {
	for i := 0; i < len(members); i += 2 {
		if members[i+1] != "" {
			dst = AppendString(append(append(append(dst, `,"`...), members[i]...), `":`...), members[i+1])
		}
	}
	return dst
}

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD. U+2028 and U+2029 are escaped, because some
// peers treat them as the end of a line.
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
