package intent

import (
	"crypto/sha256"
	"strings"

	"github.com/acphost/acphost/internal/textform"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// Bounds on the files that Shown and Written read. Files beyond them are in no result.
const (
	maxContent    = 1 << 20 // bytes of a file, before the edit and after it
	maxShownFiles = 64      // of one question
)

// Edits maps each file, by PlaceOf, to the edit that the diffs of a permission request make.
type Edits map[string]Edit

// Edit has the SHA-256 of a file's content before and after a diff. A missing file counts as empty. If the file's
// handler preserves the file's form, Plain is the hash of the written content that results in After; else it equals
// After.
type Edit struct{ Before, After, Plain [sha256.Size]byte }

// File is the content that a call writes into a file. If the file's handler preserves the file's form, the resulting
// file differs from it.
type File struct {
	Place string // see PlaceOf
	Sum   [sha256.Size]byte
}

// Make returns the edit that the write of f makes, and false if there is no such edit. f may be nil.
func (e Edits) Make(f *File) (Edit, bool) {
	if f == nil {
		return Edit{}, false
	}
	edit, ok := e[f.Place]
	return edit, ok && (edit.After == f.Sum || edit.Plain == f.Sum)
}

// PlaceOf returns the real path of a file if it is known, else the path as the agent wrote it.
func PlaceOf(p *permissionv1.PathAccess) string {
	if p.GetResolvedPath() != "" {
		return named(p.GetResolvedPath())
	}
	return named(p.GetPath())
}

// Written returns the content that a call writes into a file. a is the action that Call returned. It returns nil for
// other calls.
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

// Shown returns the edits that the diffs in the content of a permission request make. a is the action that Question
// returned for tc.
//
// Agents show a whole file or a part of one. The oldText of a diff must occur in the file exactly once, byte for
// byte, and newText replaces it; several diffs of one file are applied in order. A diff without oldText is for a
// missing or empty file. The result omits files for which this does not hold, files over 1 MiB, and files after the
// first 64, because the written content may differ from the content that was shown.
//
// It also omits files whose path in the diff is not readable (isReadablePath), because a person may mistake the path
// for another. And it omits files whose form a write would preserve if the diffs show another form.
//
// present reads a file with the agent's rights, one file at a time, and returns the form that a write would preserve.
// It returns false if the content cannot be known, and "" for a missing file.
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

// find returns the path of an action that an agent spelled as file. Each action that is fully understood has it.
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

// applied applies diffs to a text in order. It returns false if the result is not certain.
func applied(diffs []shownDiff, text string) (string, bool) {
	for _, d := range diffs {
		at := strings.Index(text, d.oldText)
		if !d.clear || at < 0 || at != strings.LastIndex(text, d.oldText) {
			return "", false // an empty oldText occurs at both ends of a text
		}
		if text = text[:at] + d.newText + text[at+len(d.oldText):]; len(text) > maxContent {
			return "", false
		}
	}
	return text, true
}
