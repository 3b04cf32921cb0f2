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

// header reads a section's name, behind its bracket: `core]`, `core.sub]`, `core "sub"]`. The old form with a dot has a sub in lower
// case, and may have one of the new form behind it. An empty sub, for which setting has no form, is not ok.
func header(text string) (section, sub, rest string, ok bool) {
	end := strings.IndexAny(text, "]\" \t\n")
	if end < 0 {
		return "", "", "", false
	}
	name, text := strings.ToLower(text[:end]), strings.TrimLeft(text[end:], " \t")
	section, sub, dotted := strings.Cut(name, ".")
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
		if i >= len(text) || text[i] != '"' || b.Len() == 0 {
			return "", "", "", false
		}
		if dotted {
			sub += "."
		}
		sub, text = sub+b.String(), strings.TrimLeft(text[i+1:], " \t")
	}
	rest, ok = strings.CutPrefix(text, "]")
	return section, sub, rest, ok && section != "" && (sub != "" || !dotted)
}

// value reads what stands behind the "=", with its quotes, escapes and continued lines. White space counts in quotes, and between
// other characters.
func value(text string) (value, rest string, ok bool) {
	var b strings.Builder
	quoted := false
	var spaces []byte // that count if a character follows
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\r' && i+1 < len(text) && text[i+1] == '\n' {
			continue
		}
		switch {
		case c == '\n':
			return b.String(), text[i+1:], !quoted
		case !quoted && (c == ' ' || c == '\t' || c == '\r'):
			if b.Len() > 0 {
				spaces = append(spaces, c)
			}
			continue
		case !quoted && (c == '#' || c == ';'):
			_, rest, _ := strings.Cut(text[i:], "\n")
			return b.String(), rest, true
		}
		b.Write(spaces)
		spaces = spaces[:0]
		switch c {
		case '"':
			quoted = !quoted
		case '\\':
			if i++; i+1 < len(text) && text[i] == '\r' && text[i+1] == '\n' {
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
	return b.String(), "", !quoted
}
