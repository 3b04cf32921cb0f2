package importer

import (
	"path"
	"strings"
)

// readKinds and writeKinds return the kinds of actions that read and change files.
func readKinds() []string  { return []string{"fs.read", "fs.list", "tool.read", "tool.search"} }
func writeKinds() []string { return []string{"fs.write", "tool.edit", "tool.delete", "tool.move"} }

// editKinds returns the writeKinds that neither remove nor move.
func editKinds() []string { return []string{"fs.write", "tool.edit"} }

// otherKinds returns the kinds of actions that do not identify the tool.
func otherKinds() []string { return []string{"tool.other", "tool.think", "unknown", "_*", "_*.*"} }

// oneRoot is a condition for rules that allow by a path below a root: the original rule applies only to the working
// directory, whereas ${root} is any root of a session.
const oneRoot = "action.roots.size() == 1"

// isGlob reports whether a glob is valid in a rule.
func isGlob(glob string) bool {
	rest := strings.TrimPrefix(strings.TrimPrefix(glob, "${root}"), "~")
	if strings.Contains(rest, "${") || strings.ContainsAny(rest, "\x00\n\r\\") {
		return false
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(rest, "/"), "/") {
		switch {
		case segment == "" && rest != "" && rest != "/", segment == ".", segment == "..":
			return false
		case strings.Contains(segment, "**") && segment != "**":
			return false
		}
	}
	_, err := path.Match(rest, "") // brackets that are not closed
	return err == nil
}

// escapeBraces prevents doublestar from parsing alternatives, which the original program does not support.
func escapeBraces(glob string) string {
	return strings.NewReplacer("{", `[{]`, "}", `[}]`).Replace(glob)
}
