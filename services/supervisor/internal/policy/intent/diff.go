package intent

import (
	"maps"
	"slices"
	"strings"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// diffKinds are the changes that the diffs in the content of a tool call make.
type diffKinds struct{ edits, deletes, moves bool }

// edit reports whether the diffs edit files. kind is the kind that the agent names. Diffs that only delete, or only
// move, files are not edits if kind names that.
func (d diffKinds) edit(kind string) bool {
	return d != diffKinds{} && (kind != "delete" || d != diffKinds{deletes: true}) && (kind != "move" || d != diffKinds{moves: true})
}

// diffs adds the files of the diffs in a tool call's content. A diff of ACP v1 has a path and texts; a diff of v2 has
// a list of changes and a patch that shows them.
func (p *paths) diffs(content []byte) (d diffKinds) {
	const nameless = "a diff does not say of which file it is"
	p.each(content, "the content cannot be read in one way only", func(v []byte) {
		if kind, _ := acp.Exact(acp.Get(v, "type")); kind != "diff" {
			return
		}
		changes := optional(v, "changes")
		if changes == nil || optional(v, "path") != nil {
			d.edits = true
			p.member(v, "path", permissionv1.Access_ACCESS_WRITE, nameless)
		}
		if changes != nil {
			p.each(changes, "the changes of a diff cannot be read in one way only", func(change []byte) { p.change(change, &d) })
			if len(elements(changes)) == 0 {
				d.edits = true
				unparsed(p.action, nameless)
			}
		}
		p.patches(v, d)
	})
	return d
}

// change adds a change of a v2 diff.
func (p *paths) change(change []byte, d *diffKinds) {
	const nameless = "a change of a diff does not say of which file it is"
	write := permissionv1.Access_ACCESS_WRITE
	switch operation, _ := acp.Exact(acp.Get(change, "operation")); operation {
	case "add", "modify":
		d.edits = true
	case "delete":
		d.deletes = true
	case "move":
		d.moves = true
		p.member(change, "oldPath", write, nameless)
	case "copy":
		d.edits = true
		p.member(change, "oldPath", permissionv1.Access_ACCESS_READ, nameless)
	default:
		d.edits = true
		unparsed(p.action, "what a change of a diff does to a file is not known")
	}
	p.member(change, "path", write, nameless)
	switch kind, _ := acp.Exact(acp.Get(change, "fileType")); {
	case kind == "symlink":
		unparsed(p.action, makesLink)
	case kind != "" && kind != "text" && kind != "binary":
		unparsed(p.action, "a change of a diff is of no file")
	}
}

// patches adds a doubt if a diff's patch has other files than the diff names, or makes other changes, because people
// see the patch. ACP v2 has the patch in the member "patch"; adapters of v1 write one into _meta.
func (p *paths) patches(diff []byte, d diffKinds) {
	var named []string
	for _, of := range append(elements(acp.Get(diff, "changes")), diff) {
		for _, name := range [...]string{"path", "oldPath"} {
			if file, ok := acp.Exact(acp.Get(of, name)); ok {
				named = append(named, "/"+strings.TrimPrefix(file, "/"))
			}
		}
	}
	isNamed := func(file string) bool {
		return slices.ContainsFunc(named, func(of string) bool { return strings.HasSuffix(of, "/"+strings.TrimPrefix(file, "/")) })
	}
	for _, name := range [...]string{"patch", "_meta"} {
		eachText(acp.Get(diff, name), maxNested, func(text string) {
			patch := readPatch(text)
			if slices.ContainsFunc(patch.paths, func(file string) bool { return !isNamed(file) }) {
				unparsed(p.action, "a diff shows a patch of another file than it names")
			}
			for _, why := range patch.doubts {
				if why != twoNames && !(why == deletes && d.deletes) && !(why == moves && d.moves) {
					unparsed(p.action, why)
				}
			}
		})
	}
}

// elements returns the elements of a list; nil for other values.
func elements(list []byte) (all [][]byte) {
	_ = acp.Elements(list, func(v []byte) bool { all = append(all, v); return true })
	return all
}

// eachText calls f with every text in a value, up to a depth.
func eachText(v []byte, depth int, f func(text string)) {
	switch {
	case len(v) == 0 || depth == 0:
	case v[0] == '"':
		text, _ := acp.String(v)
		f(text)
	case v[0] == '{':
		_ = acp.Members(v, func(_ string, v []byte) bool { eachText(v, depth-1, f); return true })
	case v[0] == '[':
		_ = acp.Elements(v, func(v []byte) bool { eachText(v, depth-1, f); return true })
	}
}

// shownDiff is a diff in the content of a tool call.
type shownDiff struct {
	path             string
	oldText, newText string
	clear            bool // both texts can be read in one way only, and are all that the diff shows
	raw              []byte
}

// readDiff reads an item of content; false: it is not a diff. A member whose name differs from a known one only in
// case makes the diff unclear, because some programs would show that member. A _meta that may hold a patch does so
// too.
func readDiff(item []byte) (shownDiff, bool) {
	known := map[string][]byte{"type": nil, "path": nil, "oldText": nil, "newText": nil}
	names := slices.Collect(maps.Keys(known))
	d := shownDiff{clear: true, raw: item}
	err := acp.Members(item, func(name string, v []byte) bool {
		if _, ok := known[name]; ok {
			known[name] = v
		} else if slices.ContainsFunc(names, func(k string) bool { return strings.EqualFold(k, name) }) ||
			name == "changes" || name == "patch" || strings.EqualFold(name, "_meta") && !briefly(v) {
			d.clear = false
		}
		return true
	})
	if kind, _ := acp.Exact(known["type"]); kind != "diff" {
		return d, false
	}
	d.path, _ = acp.Exact(known["path"])
	var hasNew, hasOld bool
	d.newText, hasNew = acp.Exact(known["newText"])
	d.oldText, hasOld = acp.Exact(known["oldText"])
	hasOld = hasOld || known["oldText"] == nil || string(known["oldText"]) == "null"
	d.clear = d.clear && err == nil && hasNew && hasOld
	return d, true
}

// briefly reports whether a _meta holds only words and numbers, such as {"kind": "update"}.
func briefly(meta []byte) bool {
	const word = 64
	brief := true
	err := acp.Members(meta, func(_ string, v []byte) bool {
		brief = brief && len(v) <= word && v[0] != '{' && v[0] != '['
		return brief
	})
	return brief && err == nil || string(meta) == "null"
}
