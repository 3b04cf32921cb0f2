package shell

import (
	"io/fs"
	"os"
	"slices"
	"strings"
)

// deep returns the words that a pattern with the component "**" may expand to, such as "src/**/*.go". Some shells treat
// two stars as one. Others descend into all folders except hidden ones and links. The result has the words of both
// interpretations: words that only some shells produce are marked as possible.
func (d *disk) deep(p pattern, at place) ([]word, bool) {
	start := strings.Index(p.text, "**/")
	if start < 0 || !p.bare[start] || !p.bare[start+1] || start > 0 && p.text[start-1] != '/' ||
		(pattern{p.text[:start], p.bare[:start]}).special() {
		return nil, false
	}
	one := pattern{p.text[:start] + p.text[start+1:], slices.Delete(slices.Clone(p.bare), start, start+1)}
	some, ok := d.expand(one, at)
	if !ok {
		return nil, false
	}
	before, rest := p.text[:start], pattern{p.text[start+3:], p.bare[start+3:]}
	root, known := d.absolute(at, before+".")
	if rest.text == "" || !known {
		return nil, false
	}
	folders, ok := d.folder(root, "", nil, 0)
	if !ok {
		return nil, false
	}
	all := map[string]bool{p.text: true} // without a matching file, the word itself
	add := func(names []string) {
		for _, name := range names {
			if file, ok := d.absolute(at, name); ok && d.countLookup() && exists(file) {
				all[name] = true
			}
		}
	}
	add(some)
	for _, folder := range folders {
		prefix := before + folder
		below := pattern{prefix + rest.text, append(make([]bool, len(prefix)), rest.bare...)}
		names, ok := d.expand(below, at)
		if !ok {
			return nil, false
		}
		add(names)
	}
	var words []word
	for name := range all {
		words = append(words, word{text: name, possible: true})
	}
	slices.SortFunc(words, func(a, b word) int { return strings.Compare(a.text, b.text) })
	return words, d.looks >= 0 && len(words) <= maxAppended
}

// folder adds a folder and the folders below it, as prefixes of the names in them: "", "a/", "a/b/".
func (d *disk) folder(dir, name string, folders []string, depth int) ([]string, bool) {
	entries, ok := d.names(dir)
	if !ok || depth == maxDepth {
		return nil, false
	}
	folders = append(folders, name)
	for _, entry := range entries {
		info, err := os.Lstat(dir + "/" + entry)
		if err != nil || !d.countLookup() {
			return nil, false
		}
		if info.IsDir() && info.Mode()&fs.ModeSymlink == 0 && entry[0] != '.' {
			if folders, ok = d.folder(dir+"/"+entry, name+entry+"/", folders, depth+1); !ok {
				return nil, false
			}
		}
	}
	return folders, true
}
