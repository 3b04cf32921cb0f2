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

// maxShown bounds how much of an action's text is repeated in an explanation, in characters.
const maxShown = 120

// mostNamed is how many of several things a text names; the others it counts.
const mostNamed = 5

// everything is why a rule matches whose only condition is one that always holds: "redirect: any" alone.
const everything = "it matches every action"

// Explain decides as Decide does, and tells of every rule of every part, in the order of the files, whether it matches
// and which of its conditions made the difference. What it repeats of the action is bounded and printable.
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

// explain says how sure it is that the rule matches, and why: the first condition that does not hold; else those that it
// cannot be told of; else all that hold.
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
	return sure, cmp.Or(strings.Join(whys, "; "), everything)
}

// code shows a simple command.
func code(argv []string) string { return shell.Code(show(strings.Join(argv, " "))) }

// unreadable reports whether people cannot read a character as what it is, or a terminal may obey it.
func unreadable(r rune) bool {
	return !unicode.IsPrint(r) || invisible.Is(r) || r == unicode.ReplacementChar
}

// show returns text as it can be shown to people: bounded, with escapes in place of characters that cannot be read.
func show(text string) string {
	text = cut(text, maxShown)
	if strings.ContainsFunc(text, unreadable) {
		quoted := strconv.Quote(text)
		var b strings.Builder
		for _, r := range quoted[1 : len(quoted)-1] {
			if invisible.Is(r) { // strconv takes blank letters for printable
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

// listOf joins the first few of what may be many.
func listOf(texts []string, separator string) string { return firstOf(mostNamed, texts, separator) }

// firstOf joins at most so many texts, and counts the others.
func firstOf(most int, texts []string, separator string) string {
	if len(texts) <= most {
		return strings.Join(texts, separator)
	}
	return fmt.Sprintf("%s%sand %d more", strings.Join(texts[:most], separator), separator, len(texts)-most)
}
