package transcript

import (
	"html"
	"strings"
	"unicode"

	"github.com/acphost/acphost/internal/lazyregexp"
)

// disableLinks disables each link that does not lead to a page, a mail address, or a relative path, because a click on
// a "javascript:" link would run code. The text remains readable.
func disableLinks(line string) string {
	line = chats.ReplaceAllString(line, `$1\:`)
	at := strings.Index(line, "](")
	if at < 0 {
		return line
	}
	var b strings.Builder
	budget := 64<<10 + 8*len(line)
	for ; at >= 0; at = strings.Index(line, "](") {
		b.WriteString(line[:at+1])
		if line = line[at+1:]; !isSafeLink(line[1:], &budget) {
			b.WriteByte('\\')
		}
	}
	b.WriteString(line)
	return b.String()
}

// chats matches addresses that some viewers turn into links without link syntax.
var chats = lazyregexp.New(`(?i)\b(xmpp):`)

// maxAddress limits the bytes of an address that may remain a link.
const maxAddress = 1 << 10

// isSafeLink reports whether the address at the beginning of rest, after "(", may remain a link in every viewer. An
// address that does not end on its line may not. budget limits the bytes that are examined, so that the time is linear
// for a text that consists of beginnings of links; when it is used up, the result is false.
func isSafeLink(rest string, budget *int) bool {
	if len(rest) > maxAddress {
		if rest = rest[:maxAddress]; !strings.Contains(rest, ")") {
			return false
		}
	}
	if strings.TrimSpace(rest) == "" {
		return false
	}
	if !strings.ContainsAny(rest, ":&") { // no scheme, in any encoding
		return true
	}
	if *budget -= len(rest); *budget < 0 {
		return false
	}
	rest = strings.TrimLeft(rest, " \t")
	address, _, _ := strings.Cut(rest, ")")
	whole := address
	if end := strings.IndexAny(address, " \t"); end >= 0 {
		address = address[:end]
	}
	for _, spelled := range [...]string{address, rest, whole} {
		for _, a := range [...]string{spelled, unslashed(spelled)} {
			for range 4 { // some viewers decode entities more than once
				if !mayLink(a) || !mayLink(unslashed(a)) {
					return false
				}
				before := a
				if a = html.UnescapeString(a); a == before {
					break
				}
			}
		}
	}
	return true
}

// unslashed removes the backslashes of Markdown.
func unslashed(s string) string { return strings.ReplaceAll(s, `\`, "") }

// spelledOut matches escapes of invisible characters.
var spelledOut = lazyregexp.New(`\\?u\{[0-9a-f]+\}`)

// mayLink reports whether an address has no scheme, or the scheme of a page or of mail. As browsers do, it ignores
// spaces and invisible characters.
func mayLink(address string) bool {
	address, _, ok := strings.Cut(address, ":")
	if !ok {
		return true
	}
	scheme := strings.Map(func(c rune) rune {
		if c == '<' || unicode.IsSpace(c) || !unicode.IsPrint(c) {
			return -1
		}
		return unicode.ToLower(c)
	}, spelledOut.ReplaceAllString(address, ""))
	if strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789+.-") != "" {
		return true
	}
	switch scheme {
	case "http", "https", "mailto":
		return true
	}
	return false
}
