package git

import (
	"bytes"
	"cmp"
	"errors"
	"strings"
)

// setting is one of a configuration file. The names of its section and key are in lower case, that between them is as it
// is written.
type setting struct{ section, sub, key, value string }

func (s setting) name() string {
	if s.sub == "" {
		return s.section + "." + s.key
	}
	return s.section + "." + s.sub + "." + s.key
}

// alias is the command that a setting of the section "alias" defines.
func (s setting) alias() string { return cmp.Or(s.sub, s.key) }

var errSyntax = errors.New("is not well-formed")

// settings reads a configuration file. It takes what git takes, and some that git does not.
func settings(data []byte) ([]setting, error) {
	var all []setting
	section, sub := "", ""
	rest := strings.TrimPrefix(string(data), "\ufeff")
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, errSyntax
	}
	for rest != "" {
		rest = strings.TrimLeft(rest, " \t\r\n\v\f")
		switch {
		case rest == "":
		case rest[0] == '#' || rest[0] == ';':
			_, rest, _ = strings.Cut(rest, "\n")
		case rest[0] == '[':
			var ok bool
			if section, sub, rest, ok = header(rest[1:]); !ok {
				return nil, errSyntax
			}
		default:
			end := strings.IndexFunc(rest, func(r rune) bool { return !isKey(r) })
			if end < 0 {
				end = len(rest)
			}
			if end == 0 || section == "" {
				return nil, errSyntax
			}
			s := setting{section: section, sub: sub, key: strings.ToLower(rest[:end])}
			rest = strings.TrimLeft(rest[end:], " \t\r")
			switch {
			case rest == "" || rest[0] == '\n' || rest[0] == '#' || rest[0] == ';':
				s.value = "true"
			case rest[0] == '=':
				var ok bool
				if s.value, rest, ok = value(rest[1:]); !ok {
					return nil, errSyntax
				}
			default:
				return nil, errSyntax
			}
			all = append(all, s)
		}
	}
	return all, nil
}

func isKey(r rune) bool {
	return r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// header reads a section's name, behind its bracket: `core]`, `core.sub]`, `core "sub"]`.
func header(text string) (section, sub, rest string, ok bool) {
	end := strings.IndexAny(text, "]\" \t\n")
	if end < 0 {
		return "", "", "", false
	}
	section, text = text[:end], strings.TrimLeft(text[end:], " \t")
	section, sub, _ = strings.Cut(section, ".")
	if strings.HasPrefix(text, `"`) {
		var b strings.Builder
		i := 1
		for ; i < len(text) && text[i] != '"' && text[i] != '\n'; i++ {
			if text[i] == '\\' {
				i++
			}
			if i < len(text) {
				b.WriteByte(text[i])
			}
		}
		if i >= len(text) || text[i] != '"' {
			return "", "", "", false
		}
		sub, text = b.String(), strings.TrimLeft(text[i+1:], " \t")
	}
	rest, ok = strings.CutPrefix(text, "]")
	return strings.ToLower(section), sub, rest, ok && section != ""
}

// value reads what stands behind the "=", with its quotes, escapes and continued lines.
func value(text string) (value, rest string, ok bool) {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			return strings.TrimSpace(b.String()), text[i+1:], !quoted
		case c == '"':
			quoted = !quoted
		case (c == '#' || c == ';') && !quoted:
			_, rest, _ = strings.Cut(text[i:], "\n")
			return strings.TrimSpace(b.String()), rest, true
		case c == '\\':
			if i++; i < len(text) && text[i] == '\r' {
				i++
			}
			if i >= len(text) {
				return "", "", false
			}
			const escapes, meant = "ntb\\\"", "\n\t\b\\\""
			switch at := strings.IndexByte(escapes, text[i]); {
			case at >= 0:
				b.WriteByte(meant[at])
			case text[i] != '\n':
				return "", "", false
			}
		default:
			b.WriteByte(c)
		}
	}
	return strings.TrimSpace(b.String()), "", !quoted
}
