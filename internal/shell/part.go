package shell

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Part describes simple command i of a line with its position: "`git push` (command 3 of 84)". show makes the text of
// the command safe and short; the text cannot end the backquotes. Part returns "" if the line has only one command.
func Part(subs []*permissionv1.SubCommand, i int, show func(string) string) string {
	if len(subs) < 2 {
		return ""
	}
	text := Quote(subs[i].GetArgv())
	if subs[i].GetDynamic() { // quotes would suggest that the shell does not expand the words
		text = strings.Join(subs[i].GetArgv(), " ")
	}
	if under := strings.Join(subs[i].GetWrappers(), " "); under != "" {
		text = under + " " + text
	}
	return fmt.Sprintf("%s (command %d of %d)", Code(show(text)), i+1, len(subs))
}

// DynamicWord reports whether word i of a simple command, 0 being the program, is known only when the command runs.
func DynamicWord(sub *permissionv1.SubCommand, i int) bool {
	if !sub.GetDynamic() {
		return false
	}
	return len(sub.GetDynamicWords()) == 0 || slices.Contains(sub.GetDynamicWords(), uint32(i)) // a line is 64 KiB at most
}

// TextWord reports whether word i of a simple command is known only when the command runs, and is certainly text: see
// SubCommand.text_words.
func TextWord(sub *permissionv1.SubCommand, i int) bool {
	return slices.Contains(sub.GetTextWords(), uint32(i))
}

// PipedWord reports whether word i of a simple command is the name of a pipe from another command: see
// SubCommand.piped_words.
func PipedWord(sub *permissionv1.SubCommand, i int) bool {
	return slices.Contains(sub.GetPipedWords(), uint32(i))
}

// Code puts text between backquotes. The text cannot end them.
func Code(text string) string { return "`" + strings.ReplaceAll(text, "`", "\\`") + "`" }

// WithoutPossible returns a simple command without the words that are only possible: see SubCommand.possible_words.
// Other fields are those of sub. If its program is only possible, the result is empty.
func WithoutPossible(sub *permissionv1.SubCommand) *permissionv1.SubCommand {
	possible := sub.GetPossibleWords()
	if slices.Contains(possible, 0) {
		return &permissionv1.SubCommand{}
	}
	certain := proto.CloneOf(sub)
	certain.Argv, certain.PossibleWords = nil, nil
	for i, word := range sub.GetArgv() {
		if !slices.Contains(possible, uint32(i)) { // a line is 64 KiB at most
			certain.Argv = append(certain.Argv, word)
		}
	}
	for _, words := range []*[]uint32{&certain.DynamicWords, &certain.TextWords, &certain.PipedWords} {
		for i, at := range *words {
			before, _ := slices.BinarySearch(possible, at)
			(*words)[i] = at - uint32(before) // #nosec G115 -- before is at most at
		}
	}
	return certain
}
