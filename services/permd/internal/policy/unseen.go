package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/reason"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// unknownReason returns why an action cannot be checked, for the user; empty if the action is fully known. unseen has
// the detail.
func unknownReason(a *action) string {
	switch {
	case a.GetUnparsed() != "":
		return reason.RequestUnreadable.String()
	case a.GetCommand().GetUnparsed() != "":
		return reason.LineUnreadable.String()
	case a.opaque:
		return opaqueReason(a.GetCommand().GetSubCommands())
	case a.cwdUnknown:
		return reason.FolderUnknown.String()
	case a.vague && a.GetUnreachableHandler() != "":
		return reason.PathUnknownHandler.With(show(a.GetUnreachableHandler()))
	case a.vague:
		return reason.PathUnknown.String()
	}
	return ""
}

// maxWordsNamed limits the words that a reason names.
const maxWordsNamed = 3

// opaqueReason returns which parts of a command line are known only at run time.
func opaqueReason(subs []*permissionv1.SubCommand) string {
	var words []string
	other := ""
	for _, sub := range subs {
		why := ""
		switch expanded := expandedWords(sub); {
		case sub.GetDynamic() && slices.Contains(sub.GetDynamicWords(), 0):
			return reason.ProgramUnknown.With(programOf(sub))
		case sub.GetDynamic() && len(expanded) == 0:
			why = reason.WordsUnknown.With(programOf(sub))
		case sub.GetDynamic():
			for _, word := range expanded {
				if word = "`" + word + "`"; !slices.Contains(words, word) {
					words = append(words, word)
				}
			}
		case slices.ContainsFunc(sub.GetRedirections(), (*permissionv1.Redirection).GetDynamic):
			why = reason.TargetUnknown.String()
		}
		other = cmp.Or(other, why)
	}
	switch len(words) {
	case 0:
		return cmp.Or(other, reason.LineUnreadable.String())
	case 1:
		return reason.ValueUnknown.With(words[0])
	}
	return reason.ValuesUnknown.With(firstOf(maxWordsNamed, words, ", "))
}

// programOf returns the program of a simple command, as reasons show it.
func programOf(sub *permissionv1.SubCommand) string {
	if len(sub.GetArgv()) == 0 {
		return "the command"
	}
	return "`" + show(sub.GetArgv()[0]) + "`"
}

// unseen returns which part of an action is not known; empty if the action is fully known.
func unseen(a *action) string {
	switch {
	case a.GetUnparsed() != "":
		return show(a.GetUnparsed())
	case a.GetCommand().GetUnparsed() != "":
		return "the line cannot be read in full: " + show(a.GetCommand().GetUnparsed())
	case a.opaque:
		var whys []string
		for _, sub := range a.GetCommand().GetSubCommands() {
			if why := unknown(sub); why != "" && !slices.Contains(whys, why) {
				whys = append(whys, why)
			}
		}
		return cmp.Or(listOf(whys, "; "), "a part of the command is only known when it runs")
	case a.cwdUnknown:
		for _, sub := range a.GetCommand().GetSubCommands() {
			if sub.GetCwdUnknown() && len(sub.GetArgv()) > 0 {
				return fmt.Sprintf("the directory of %s is only known when it runs", programOf(sub))
			}
		}
		return "the directory of a part of the command is not known"
	case a.vague:
		for _, p := range a.GetPaths() {
			if !isPath(p.GetResolvedPath()) {
				return fmt.Sprintf("it is not known where %s leads", show(p.GetPath())) + a.whyUnresolved()
			}
		}
		return "it is not known where every path leads" + a.whyUnresolved()
	}
	return ""
}

// unknown returns which part of a simple command is known only at run time; empty: none.
func unknown(sub *permissionv1.SubCommand) string {
	program := programOf(sub)
	switch words := expandedWords(sub); {
	case !sub.GetDynamic() && slices.ContainsFunc(sub.GetRedirections(), (*permissionv1.Redirection).GetDynamic):
		return "the file to which " + program + " redirects is only known when it runs"
	case !sub.GetDynamic():
		return ""
	case slices.Contains(sub.GetDynamicWords(), 0):
		return "the program " + program + " is only known when it runs"
	case len(words) == 0:
		return "some arguments of " + program + " are only known when it runs"
	default:
		return fmt.Sprintf("the arguments `%s` of %s are only known when it runs", listOf(words, "`, `"), program)
	}
}

// expandedWords returns the arguments of a simple command that a shell would expand, each from the place on where the
// expansion begins: the texts go into records, and other words may be secrets.
func expandedWords(sub *permissionv1.SubCommand) []string {
	var words []string
	for _, i := range sub.GetDynamicWords() {
		if i == 0 || int(i) >= len(sub.GetArgv()) {
			continue
		}
		word := sub.GetArgv()[i]
		from := strings.IndexAny(word, "$`*?[{~")
		if from < 0 {
			continue
		}
		if from > 0 {
			word = "…" + word[from:]
		}
		if word = show(word); !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	return words
}
