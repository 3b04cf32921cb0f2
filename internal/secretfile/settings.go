package secretfile

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/secretname"
	"github.com/acphost/acphost/internal/wordset"
)

var (
	// reference matches a value that a program replaces by a variable, and references matches those in a text.
	reference  = lazyregexp.New(`^(\$\{[A-Za-z0-9_.:?-]+\}|\$\x01|%[A-Za-z_][A-Za-z0-9_]*%)$`)
	references = lazyregexp.New(`\$\{[A-Za-z0-9_.:?-]+\}`)
	quotes     = strings.NewReplacer(`"`, "", "'", "")
	// userPassword matches credentials in the configuration of Bundler.
	userPassword = lazyregexp.New(`^[^\s:/]+:[^\s/]+$`)
	// settingNames are names of credentials that secretname does not recognize without their file.
	settingNames = wordset.Of("_auth key otp ident npmauthident pwd apikeys")
	// noCredential are values that turn something on or off.
	noCredential = wordset.Of("true false yes no on off null none ~ 0 1 [ ( {")
	// digests end the names of values that look like keys.
	digests = []string{"checksum", "integrity", "digest", "hash", "fingerprint", "sha1", "sha256", "sha512"}
)

// isPlainSettings reports whether a text contains settings without credentials: no token, password or key with a
// literal value, and no long value that may be a key. References to variables ("${NPM_TOKEN}") are not credentials.
// The forms are JSON and XML, which the file's name or the first character tells, and lines with a name, a separator
// and a value, as in INI, YAML, TOML and properties.
func isPlainSettings(file string, data []byte) bool {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
	if !utf8.Valid(data) || secretname.Replace(string(data), "") != string(data) {
		return false
	}
	file = strings.ToLower(path.Base(file))
	switch {
	case len(data) == 0:
		return true
	case data[0] == '{' && json.Valid(data), path.Ext(file) == ".json":
		var all any
		return json.Unmarshal(data, &all) == nil && isPlainJSON("", all)
	case data[0] == '<', path.Ext(file) == ".xml", file == "nuget.config":
		return data[0] == '<' && isPlainXML(data)
	}
	return arePlainLines(string(data))
}

// isPlain reports whether a value of a setting is no credential.
func isPlain(name, value string) bool {
	value = strings.TrimSpace(strings.Trim(strings.TrimSpace(value), `"'`))
	switch {
	case value == "", noCredential[strings.ToLower(value)], reference.MatchString(value):
		return true
	case namesCredential(name), secretname.Value(value):
		return false
	case strings.HasPrefix(name, "BUNDLE_") && userPassword.MatchString(value): // the rest of the name is a machine
		return false
	}
	return !hasLongValue(value) || namesDigest(name)
}

func namesCredential(name string) bool {
	return secretname.Is(name) || settingNames[strings.ToLower(name)]
}

func namesDigest(name string) bool {
	name = strings.ToLower(name)
	for _, end := range digests {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

func isPlainJSON(name string, value any) bool {
	switch value := value.(type) {
	case string:
		return isPlain(name, value)
	case []any:
		for _, v := range value {
			if !isPlainJSON(name, v) {
				return false
			}
		}
	case map[string]any:
		for n, v := range value {
			if !isPlainJSON(n, v) {
				return false
			}
		}
	}
	return true
}

// isPlainXML checks texts by the names of their elements, attributes by their names, and the attribute "value" also by
// the attribute "key" and by the element around it.
func isPlainXML(data []byte) bool {
	decoder := xml.NewDecoder(bytes.NewReader(data))
	within := []string{""}
	for {
		token, err := decoder.Token()
		switch t := token.(type) {
		case nil:
			return errors.Is(err, io.EOF)
		case xml.StartElement:
			name := t.Name.Local
			for _, a := range t.Attr {
				if a.Name.Local == "key" {
					name = a.Value
				}
			}
			for _, a := range t.Attr {
				of := a.Name.Local
				if of == "key" {
					continue // a name, and not a value
				}
				if of == "value" && namesCredential(within[len(within)-1]) {
					of = within[len(within)-1]
				} else if of == "value" {
					of = name
				}
				if !isPlain(of, a.Value) {
					return false
				}
			}
			within = append(within, name)
		case xml.EndElement:
			within = within[:len(within)-1]
		case xml.CharData:
			if !isPlain(within[len(within)-1], string(t)) {
				return false
			}
		case xml.Comment:
			if hasLongValue(string(t)) {
				return false
			}
		}
	}
}

// arePlainLines checks lines with a name, a separator and a value.
func arePlainLines(text string) bool {
	open := false // a credential's value may follow in the next line
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "":
			continue
		case strings.HasPrefix(trimmed, "#"), strings.HasPrefix(trimmed, ";"):
			if hasLongValue(trimmed) {
				return false
			}
			continue
		case open && (line[0] == ' ' || line[0] == '\t'):
			return false
		}
		open = false
		trimmed = references.ReplaceAllString(quotes.Replace(trimmed), "$$\x01") // its braces do not separate
		for piece := range strings.FieldsFuncSeq(trimmed, func(r rune) bool { return r == '{' || r == '}' || r == ',' }) {
			plain, empty := isPlainPiece(piece)
			if !plain {
				return false
			}
			open = open || empty
		}
	}
	return true
}

// isPlainPiece checks a part of a line that has at most one name and one value, behind any of three separators.
// empty: it is the name of a credential without a value. A name may contain another separator
// ("//registry.example.org/:_authToken=").
func isPlainPiece(piece string) (plain, empty bool) {
	piece = strings.TrimPrefix(strings.TrimSpace(piece), "- ") // an element of a list
	found := false
	for _, separator := range []string{"=", ":", " "} {
		name, value, ok := strings.Cut(piece, separator)
		if !ok {
			continue
		}
		found = true
		if separator == " " {
			name, value = strings.TrimRight(name, "=:"), strings.TrimLeft(value, "=: ")
		}
		name = strings.TrimSuffix(strings.TrimSpace(name), "[]")
		name = name[strings.LastIndexAny(name, ":/ ")+1:]
		if !isPlain(name, value) {
			return false, false
		}
		empty = empty || namesCredential(name) && strings.TrimSpace(value) == ""
	}
	return found || !hasLongValue(piece), empty
}
