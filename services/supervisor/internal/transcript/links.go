package transcript

import (
	"html"
	"strings"
	"unicode"

	"github.com/acphost/acphost/internal/lazyregexp"
)

// unlinked takes apart each link that does not lead to a page, a mail address, or a place beside the file: who clicks
// on "javascript:" runs it. What it says stays readable.
func unlinked(line string) string {
	line = chats.ReplaceAllString(line, `$1\:`)
	at := strings.Index(line, "](")
	if at < 0 {
		return line
	}
	var b strings.Builder
	budget := 64<<10 + 8*len(line)
	for ; at >= 0; at = strings.Index(line, "](") {
		b.WriteString(line[:at+1])
		if line = line[at+1:]; !leadsToAPage(line[1:], &budget) {
			b.WriteByte('\\')
		}
	}
	b.WriteString(line)
	return b.String()
}

// chats are addresses that some viewers make links of where they stand alone.
var chats = lazyregexp.New(`(?i)\b(xmpp):`)

// maxAddress is the longest address that may stay a link, in bytes.
const maxAddress = 1 << 10

// leadsToAPage reports whether the address that a text begins with, behind "(", is one that may stay a link, whatever
// a viewer makes of it. One that does not end on its line is none, nor one for which the budget of bytes to look at is
// spent: a text of nothing but beginnings of links takes time in proportion to its length.
func leadsToAPage(rest string, budget *int) bool {
	if len(rest) > maxAddress {
		if rest = rest[:maxAddress]; !strings.Contains(rest, ")") {
			return false
		}
	}
	if strings.TrimSpace(rest) == "" {
		return false
	}
	if !strings.ContainsAny(rest, ":&") { // no scheme, however it is spelled
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
			for range 4 { // some viewers undo entities more than once
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

// unslashed undoes the backslashes of Markdown.
func unslashed(s string) string { return strings.ReplaceAll(s, `\`, "") }

// spelledOut is how what cannot be seen is shown.
var spelledOut = lazyregexp.New(`\\?u\{[0-9a-f]+\}`)

// mayLink reports whether an address has no scheme, or one of a page or of mail. As browsers do, it overlooks blanks
// and what cannot be seen.
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
