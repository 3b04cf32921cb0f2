package intent

import (
	"bytes"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// Contradicts reports whether a tool call, as now reported, differs from the call shown to a person: in its command,
// its directory or variables, or in the content of a file whose diff is shown. An ambiguous report also contradicts.
//
// Parts that are missing in the report, or were not shown, do not contradict, and neither does a prefix of a shown
// part. Agents that report a call in pieces ask while the last pieces are still in transit, and OpenCode reports the
// directory of a command separately.
func (s Session) Contradicts(shown, now acp.ToolCall) bool {
	return now.Ambiguous != shown.Ambiguous ||
		!bytes.Equal(now.RawInput, shown.RawInput) && s.otherCommand(shown, now) ||
		!bytes.Equal(now.Content, shown.Content) && s.otherDiffs(shown.Content, now.Content)
}

// Repeats reports whether a tool call, as now reported, has the same command as the judged call and shows a person
// nothing else. OpenCode reports a command again right after its permission request, with the directory and a
// description.
func (s Session) Repeats(judged, now acp.ToolCall) bool {
	if judged.Title != now.Title || judged.Name != now.Name || judged.Kind != now.Kind || judged.Ambiguous != now.Ambiguous ||
		!bytes.Equal(judged.Content, now.Content) || max(len(judged.RawInput), len(now.RawInput)) > maxRawInput {
		return false
	}
	was, is := s.claim(judged), s.claim(now)
	return was.named() && was.line == is.line && slices.Equal(was.argv, is.argv) && slices.Equal(was.env, is.env) &&
		slices.Equal(was.cwd, is.cwd) && slices.Equal(was.paths, is.paths) && slices.Equal(was.strays, is.strays) &&
		slices.Equal(was.unclear, is.unclear)
}

func (s Session) otherCommand(shown, now acp.ToolCall) bool {
	if len(shown.RawInput) > maxRawInput { // no command was read from it
		return false
	}
	was := s.claim(shown)
	switch {
	case !was.named():
		return false
	case len(now.RawInput) > maxRawInput:
		return true
	}
	is := s.claim(now)
	sameFolder := func(a, b string) bool { return s.spelled(a) == s.spelled(b) }
	if len(is.cwd) > 0 && len(was.cwd) > 0 && !slices.EqualFunc(is.cwd, was.cwd, sameFolder) {
		return true
	}
	if env := meaningful(is.env); len(env) > 0 && !slices.Equal(env, meaningful(was.env)) {
		return true
	}
	if !is.named() {
		return false
	}
	doubts := s.read(shown).unclear
	return !is.begins(was) || slices.ContainsFunc(s.read(now).unclear, func(why string) bool {
		return !slices.Contains(doubts, why)
	})
}

// begins reports whether w has the same command as of, or a prefix of it.
func (w *claim) begins(of claim) bool {
	argv, line := bare(&permissionv1.Command{Argv: w.argv, Text: w.line})
	ofArgv, ofLine := bare(&permissionv1.Command{Argv: of.argv, Text: of.line})
	return line == ofLine && slices.Equal(argv, ofArgv) || strings.HasPrefix(of.text(), w.text())
}

// text returns the command as a line.
func (w *claim) text() string {
	if len(w.argv) > 0 {
		return shell.Quote(w.argv)
	}
	return w.line
}

// otherDiffs reports whether the diffs of a shown file changed their texts.
func (s Session) otherDiffs(shown, now []byte) bool {
	of := s.diffsOf(shown)
	for file, diffs := range s.diffsOf(now) {
		was := of[file]
		if len(was) == 0 {
			continue
		}
		if len(diffs) > len(was) {
			return true
		}
		for i, d := range diffs {
			if bytes.Equal(d.raw, was[i].raw) {
				continue
			}
			if !d.clear || !strings.HasPrefix(was[i].oldText, d.oldText) || !strings.HasPrefix(was[i].newText, d.newText) {
				return true
			}
		}
	}
	return false
}

// diffsOf returns the diffs in the content of a tool call, keyed by file.
func (s Session) diffsOf(content []byte) map[string][]shownDiff {
	diffs := map[string][]shownDiff{}
	_ = acp.Elements(content, func(item []byte) bool {
		if d, isDiff := readDiff(item); isDiff {
			file := s.spelled(d.path)
			diffs[file] = append(diffs[file], d)
		}
		return true
	})
	return diffs
}

// spelled returns the normal form of a path for comparisons. It returns texts that name no local file unchanged.
func (s Session) spelled(file string) string {
	at, why := local(file)
	if why != "" {
		return file
	}
	at, _ = s.absolute(at)
	return named(at)
}
