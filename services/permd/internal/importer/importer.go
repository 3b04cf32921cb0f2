// Package importer converts a user's permissions for other programs to a rule file.
//
// The formats differ in which entry applies if several match: the strictest (Claude Code), the one with the highest
// priority (Gemini CLI), or the last (opencode). In a rule file the strictest always applies. Therefore the package
// converts an entry that allows only as far as the rule allows no more than the entry did. It converts an entry that
// denies or asks so that the rule covers at least as much. It reports entries that rules cannot express; in place of
// such an entry that forbade something, it writes a rule that asks each time. The result may be stricter than the
// original, and is never looser.
//
// "The same command" means the same words. If the other program distinguished two ways to quote them, this is lost.
//
// The package knows the formats and the language of rules. It opens no files.
package importer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/invisible"
	"github.com/acphost/acphost/internal/yamlproto"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

// The formats, by their names in ImportRequest.
const (
	claude   = "claude"
	gemini   = "gemini"
	opencode = "opencode"
)

const (
	// maxContent limits a file, in bytes.
	maxContent = 1 << 20
	// maxNesting limits the nesting of brackets, because the parsers recurse.
	maxNesting = 200
	// maxEntries limits the rules that a file is converted to.
	maxEntries = 2000
)

// Import converts content, the file with the given name, to a valid rule file. format is "claude" (settings.json),
// "gemini" (a policy in TOML) or "opencode" (opencode.json); empty: Import determines it from the name and the content.
// used is the format that was read, and dropped are the entries that could not be converted completely. An error means
// that the format is unknown, or the file is not well-formed.
func Import(format, name string, content []byte) (rules []byte, dropped []*permissionv1.Dropped, used string, err error) {
	fail := func(err error) ([]byte, []*permissionv1.Dropped, string, error) {
		return nil, nil, "", fmt.Errorf("import %q: %w", name, err)
	}
	if err := checkInput(content); err != nil {
		return fail(err)
	}
	if used = format; used == "" {
		if used, err = detectFormat(name, content); err != nil {
			return fail(err)
		}
	}
	d := &draft{ids: map[string]int{}}
	switch used {
	case claude:
		err = d.claude(content)
	case gemini:
		err = d.gemini(content)
	case opencode:
		err = d.opencode(content)
	default:
		err = fmt.Errorf("expected the format claude, gemini or opencode, got %q", used)
	}
	if err == nil {
		d.addAllows()
		rules, err = d.finish(name)
	}
	if err != nil {
		return fail(err)
	}
	return rules, d.dropped, used, nil
}

// checkInput checks the limits of the parsers' input.
func checkInput(content []byte) error {
	if len(content) > maxContent {
		return fmt.Errorf("expected at most %d bytes, got %d", maxContent, len(content))
	}
	if !utf8.Valid(content) {
		return errors.New("expected text in UTF-8, got other bytes")
	}
	open := 0
	for _, c := range content {
		switch c {
		case '[', '{':
			open++
		case ']', '}':
			open = max(0, open-1)
		}
		if open > maxNesting {
			return fmt.Errorf("expected at most %d brackets within each other", maxNesting)
		}
	}
	return nil
}

// detectFormat determines the format of a file.
func detectFormat(name string, content []byte) (string, error) {
	switch base := name[strings.LastIndexAny(name, `/\`)+1:]; {
	case strings.HasSuffix(base, ".toml"):
		return gemini, nil
	case strings.HasPrefix(base, "opencode.json"):
		return opencode, nil
	case strings.HasPrefix(base, "settings") && strings.Contains(name, ".claude"):
		return claude, nil
	}
	if text := bytes.TrimSpace(content); len(text) == 0 || (text[0] != '{' && text[0] != '/') {
		if bytes.Contains(content, []byte("[[rule]]")) {
			return gemini, nil
		}
		return "", errors.New("it is not known whose permissions these are: say claude, gemini or opencode")
	}
	top, err := readObject(content)
	if err != nil {
		return "", err
	}
	switch {
	case top.get("permissions").isSet() || top.get("allowedTools").isSet():
		return claude, nil
	case top.get("permission").isSet() || strings.Contains(top.get("$schema").text(), "opencode.ai"):
		return opencode, nil
	}
	return "", errors.New("it is not known whose permissions these are: say claude, gemini or opencode")
}

// draft is the rule file that is being created.
type draft struct {
	origin      string   // the original program, for people
	notes       []string // lines of the file's header
	rules       []*permissionv1.Rule
	dropped     []*permissionv1.Dropped
	ids         map[string]int
	allowGroups []allowGroup // for addAllows
}

// drop reports an entry that was not, or not completely, converted.
func (d *draft) drop(entry, dropReason string) {
	if entry = printable(entry); strings.TrimSpace(entry) == "" {
		entry = `"" (empty)`
	}
	d.dropped = append(d.dropped, &permissionv1.Dropped{Entry: entry, Why: dropReason})
}

// add adds a rule for an entry.
func (d *draft) add(entry string, rule *permissionv1.Rule) {
	rule.Id = d.id(rule.GetEffect(), entry)
	if rule.GetReason() == "" {
		rule.Reason = d.origin + " has: " + entry
	}
	rule.Reason = truncate(printable(rule.GetReason()), 300)
	if len(d.rules) >= maxEntries {
		return // finish reports it
	}
	d.rules = append(d.rules, rule)
}

// addAskFallback adds a rule that asks each time, for an entry that forbids and cannot be expressed by rules. It covers
// all actions that the entry may apply to.
func (d *draft) addAskFallback(entry, dropReason string, rule *permissionv1.Rule) {
	rule.Effect, rule.NotGrantable = ask, true
	d.drop(entry, dropReason+"; a rule that asks each time stands in for it")
	d.add(entry, rule)
}

// finish checks that the rules are valid, and encodes them. It drops and reports invalid rules; it replaces those that
// forbid by a rule that asks about all actions of their kinds.
func (d *draft) finish(name string) ([]byte, error) {
	if len(d.rules) >= maxEntries {
		return nil, fmt.Errorf("expected fewer than %d entries", maxEntries)
	}
	data, err := d.write(name)
	if err != nil {
		return nil, err
	}
	if loads(data) == nil {
		return data, nil
	}
	for i, rule := range d.rules {
		one, err := yamlproto.Marshal(&permissionv1.Policy{Version: 1, Rules: []*permissionv1.Rule{rule}})
		switch {
		case err != nil:
			return nil, err
		case loads(one) == nil:
		case rule.GetEffect() == allow:
			d.drop(rule.GetReason(), "it makes a rule that does not load; write it by hand")
			d.rules[i] = nil
		default:
			d.drop(rule.GetReason(), "it makes a rule that does not load; one that asks each time stands in for it")
			d.rules[i] = &permissionv1.Rule{Id: rule.GetId(), Effect: ask, NotGrantable: true, On: rule.GetOn(), Reason: rule.GetReason()}
			if len(rule.GetOn()) == 0 {
				d.rules[i].When = "true"
			}
		}
	}
	d.rules = slices.DeleteFunc(d.rules, func(r *permissionv1.Rule) bool { return r == nil })
	if data, err = d.write(name); err != nil {
		return nil, err
	}
	if err := loads(data); err != nil {
		return nil, fmt.Errorf("the rules that it becomes do not load: %w", err)
	}
	return data, nil
}

func loads(data []byte) error {
	_, err := policy.Parse("imported", data, policy.Surroundings{Home: "/home/user"})
	return err
}

func (d *draft) write(name string) ([]byte, error) {
	data, err := yamlproto.Marshal(&permissionv1.Policy{Version: 1, Rules: d.rules})
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# What %s allows, asks about and denies, from %s.\n#\n", d.origin, truncate(printable(name), 200))
	b.WriteString("# Of the rules that match, the strictest counts: deny, then ask, then allow. No match: ask.\n")
	for _, note := range d.notes {
		fmt.Fprintf(&b, "# %s\n", note)
	}
	b.WriteByte('\n')
	return append([]byte(b.String()), data...), nil
}

// id returns a unique rule id that is derived from an entry.
func (d *draft) id(effect, entry string) string {
	var b strings.Builder
	b.WriteString(effect)
	gap := true
	for _, r := range entry {
		switch {
		case b.Len() > 60:
		case r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			if gap {
				b.WriteByte('-')
			}
			b.WriteRune(unicode.ToLower(r))
			gap = false
			continue
		}
		gap = true
	}
	id := b.String()
	for d.ids[id]++; d.ids[id] > 1; d.ids[id]++ {
		id = fmt.Sprintf("%s-%d", id, d.ids[id])
	}
	return id
}

// printable makes s printable on one line of a file.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || invisible.Is(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// truncate shortens s to n characters.
func truncate(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return s
}
