package intent

import (
	"crypto/sha256"
	"strings"

	"github.com/acphost/acphost/internal/textform"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// Bounds on the files that Shown and Written look at. What is beyond them is in no result.
const (
	maxContent    = 1 << 20 // bytes of a file, before the edit and after it
	maxShownFiles = 64      // of one question
)

// Edits are what the diffs of a question make of files, each by PlaceOf its path.
type Edits map[string]Edit

// Edit is the SHA-256 of a file's content before and after a diff was applied. A missing file is empty. Plain is that of the
// other content by which a write makes After, as its handler keeps the file's form; or After.
type Edit struct{ Before, After, Plain [sha256.Size]byte }

// File is what a call writes into a file. If the file's handler keeps its form, it holds more afterwards.
type File struct {
	Place string // PlaceOf its path
	Sum   [sha256.Size]byte
}

// Make returns the edit that the write of f makes; false: there is none. f may be nil.
func (e Edits) Make(f *File) (Edit, bool) {
	if f == nil {
		return Edit{}, false
	}
	edit, ok := e[f.Place]
	return edit, ok && (edit.After == f.Sum || edit.Plain == f.Sum)
}

// PlaceOf names the file that a path leads to: where it really leads, or, if that is not known, by its name.
func PlaceOf(p *permissionv1.PathAccess) string {
	if p.GetResolvedPath() != "" {
		return named(p.GetResolvedPath())
	}
	return named(p.GetPath())
}

// Written is what a call writes into a file, which is an action that Call has returned. It is nil for a call that writes no
// file.
func Written(a *permissionv1.Action, params []byte) *File {
	if a.GetKind() != "fs.write" || len(a.GetPaths()) != 1 {
		return nil
	}
	text, ok := acp.Exact(acp.Get(params, "content"))
	if !ok || len(text) > maxContent {
		return nil
	}
	return &File{PlaceOf(a.GetPaths()[0]), sha256.Sum256([]byte(text))}
}

// Shown is what the edit of a question makes of files, as the diffs in its content show it. a is what Question
// has returned for tc.
//
// Agents show a whole file or a part of one. Either way the oldText of a diff must stand in the file exactly once, byte for
// byte, and newText takes its place; several diffs of one file follow each other. A diff without oldText is of a file that
// is missing or empty. A file for which that does not hold, or which is longer than 1 MiB, is left out, and so is each
// file after the first 64: the person may have been shown something else than what would be written.
//
// So is a file whose path a diff does not spell as acphost would (isReadablePath): people may take it for another file.
//
// So is a file whose form a write would keep, if the diffs show it in another form: what they show would not be written.
//
// present reads a file as the agent could, one file at a time, and says what a write would keep of its form. It returns false
// if the content cannot be known, and "" for a missing file.
func (s Session) Shown(a *permissionv1.Action, tc acp.ToolCall, present func(p *permissionv1.PathAccess) (string, textform.Form, bool)) Edits {
	if a.GetUnparsed() != "" || a.GetKind() != "tool.edit" {
		return nil
	}
	var files []*permissionv1.PathAccess
	diffs := map[string][]shownDiff{} // by place
	_ = acp.Elements(tc.Content, func(item []byte) bool {
		if d, isDiff := readDiff(item); isDiff {
			p := s.find(a, d.path)
			file, _ := local(d.path)
			d.clear = d.clear && isReadablePath(file) && strings.TrimPrefix(d.path, "file://") == file
			place := PlaceOf(p)
			if diffs[place] == nil {
				files = append(files, p)
			}
			diffs[place] = append(diffs[place], d)
		}
		return true
	})
	shown := Edits{}
	for _, p := range files[:min(len(files), maxShownFiles)] {
		if text, form, known := present(p); known && len(text) <= maxContent {
			if after, certain := applied(diffs[PlaceOf(p)], text); certain && form.Apply(after) == after {
				shown[PlaceOf(p)] = Edit{sha256.Sum256([]byte(text)), sha256.Sum256([]byte(after)), sha256.Sum256([]byte(form.Plain(after)))}
			}
		}
	}
	return shown
}

// find returns the path of an action that an agent spelled as file. An action that is understood in full has it.
func (s Session) find(a *permissionv1.Action, file string) *permissionv1.PathAccess {
	file, _ = local(file)
	file, _ = s.absolute(file)
	for _, p := range a.GetPaths() {
		if p.GetPath() == file {
			return p
		}
	}
	return nil
}

// applied returns what diffs make of a text, one after the other; false: that is not certain.
func applied(diffs []shownDiff, text string) (string, bool) {
	for _, d := range diffs {
		at := strings.Index(text, d.oldText)
		if !d.clear || at < 0 || at != strings.LastIndex(text, d.oldText) {
			return "", false // an empty oldText stands at each end of a text that is not empty
		}
		if text = text[:at] + d.newText + text[at+len(d.oldText):]; len(text) > maxContent {
			return "", false
		}
	}
	return text, true
}
