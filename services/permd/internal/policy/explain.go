package policy

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/acphost/acphost/internal/invisible"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// maxShown limits the text of an action that an explanation repeats, in characters.
const maxShown = 120

// maxNamed limits the items that a text names; it counts the others.
const maxNamed = 5

// everything is the reason of a rule whose only condition always holds: "redirect: any" alone.
const everything = "it matches every action"

// Explain decides as Decide does, and reports for every rule of every part, in the order of the files, whether it
// matches and which of its conditions decided that. The returned text of the action is limited and printable.
func Explain(parts []Part, of *permissionv1.Action) *permissionv1.ExplainResponse {
	explained := &permissionv1.ExplainResponse{Decision: Decide(parts, of)}
	a := newAction(of)
	for _, p := range parts {
		for i := range p.Policy.rules {
			r := &p.Policy.rules[i]
			held, why := r.explain(a)
			matched := held.String()
			if some := r.takesSome(a); held == no && some != "" {
				matched, why = "part", "it takes "+some+", and not the whole line: "+why
			}
			switch {
			case r.effect == "allow" && !p.loosens():
				why += "; does not count: the workspace is not trusted"
			case held != no && a.GetKind() == "tool.switch_mode":
				why += "; does not count: a change of mode is for a person to decide"
			}
			explained.Considered = append(explained.Considered, &permissionv1.Considered{
				Rule: r.id, Effect: r.effect, File: p.Name, Line: r.line, Matched: matched, Why: why,
			})
		}
	}
	return explained
}

func (m match) String() string { return [...]string{no: "no", maybe: "maybe", yes: "yes"}[m] }

// explain reports how certain it is that the rule matches, and why: the first condition that does not hold; else those
// that are uncertain; else all that hold.
func (r *rule) explain(a *action) (match, string) {
	sure := yes
	var whys []string
	for _, c := range r.criteria(a) {
		held := c.holds(r, a)
		why := c.why(r, a, held)
		if held == no {
			return no, why
		}
		if held < sure {
			sure, whys = held, nil
		}
		if held == sure && why != "" {
			whys = append(whys, why)
		}
	}
	if !r.concernsStart(a, sure) {
		return no, "a start is decided only by rules that name the program for certain"
	}
	return sure, cmp.Or(strings.Join(whys, "; "), everything)
}

// code formats a simple command.
func code(argv []string) string { return shell.Code(show(strings.Join(argv, " "))) }

// unreadable reports whether a character is not legible to people, or may control a terminal.
func unreadable(r rune) bool {
	return !unicode.IsPrint(r) || invisible.Is(r) || r == unicode.ReplacementChar
}

// show returns text for people: limited in length, with escapes for characters that are not legible.
func show(text string) string {
	text = cut(text, maxShown)
	if strings.ContainsFunc(text, unreadable) {
		quoted := strconv.Quote(text)
		var b strings.Builder
		for _, r := range quoted[1 : len(quoted)-1] {
			if invisible.Is(r) { // strconv treats blank letters as printable
				b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			} else {
				b.WriteRune(r)
			}
		}
		return cut(b.String(), maxShown)
	}
	return text
}

// cut returns at most the first n characters of a text, and "…" for the rest.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for i := range text {
		if n--; n < 0 {
			return text[:i] + "…"
		}
	}
	return text
}

func list(names []string) string {
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = show(name)
	}
	return listOf(shown, ", ")
}

// listOf joins the first few of a possibly long list.
func listOf(texts []string, separator string) string { return firstOf(maxNamed, texts, separator) }

// firstOf joins at most most texts, and counts the others.
func firstOf(most int, texts []string, separator string) string {
	if len(texts) <= most {
		return strings.Join(texts, separator)
	}
	return fmt.Sprintf("%s%sand %d more", strings.Join(texts[:most], separator), separator, len(texts)-most)
}
