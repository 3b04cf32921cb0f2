package git

import (
	"bytes"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// maxNewCommits limits the commits that ChangedSince compares with their parents.
	maxNewCommits = 256
	// maxChanged limits the paths that ChangedSince returns.
	maxChanged = 1024
)

// ChangedSince returns the files that new commits add or change: commits that the refs of s lead to, and the refs of
// before do not. before is an earlier snapshot of the same repository. A merge is compared with its first parent. The
// paths are absolute, in the working tree of s, and sorted. Files are missing if there are too many, or if they are not
// found until the deadline.
func (s *Snapshot) ChangedSince(before *Snapshot, deadline time.Time) []string {
	isNew := func(tip string) bool { return !slices.Contains(before.tips, tip) }
	if s.dir != before.dir || !slices.ContainsFunc(s.tips, isNew) {
		return nil
	}
	r := &objectReader{history: NewHistory(s.dir), trees: map[string][]byte{}}
	defer r.close()
	known, late := map[string]bool{}, func() bool { return time.Now().After(deadline) }
	r.walk(before.tips, known, maxCommits, late, func([]byte) {})
	changed := map[string]bool{}
	r.walk(s.tips, known, maxNewCommits, late, func(commit []byte) {
		parent := ""
		if parents := headers(commit, "parent"); len(parents) > 0 {
			if _, data, err := r.read(parents[0]); err == nil {
				parent = strings.Join(headers(data, "tree"), "")
			}
		}
		for _, tree := range headers(commit, "tree") {
			r.compare(parent, tree, s.top, changed)
		}
	})
	paths := make([]string, 0, len(changed))
	for path := range changed {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

// walk calls visit with each commit that tips lead to and that is not in seen, at most most times, until end reports
// true. It adds the commits to seen.
func (r *objectReader) walk(tips []string, seen map[string]bool, most int, end func() bool, visit func(commit []byte)) {
	for queue := slices.Clone(tips); len(queue) > 0 && most > 0 && !end(); queue = queue[1:] {
		id := queue[0]
		if seen[id] {
			continue
		}
		seen[id] = true
		kind, data, err := r.read(id)
		switch {
		case err != nil: // a shallow clone ends here
		case kind == "tag":
			queue = append(queue, headers(data, "object")...)
		case kind == "commit":
			most--
			visit(data)
			queue = append(queue, headers(data, "parent")...)
		}
	}
}

// compare adds the files below a tree that another tree does not have, or has with another content or mode. An empty id
// is an empty tree.
func (r *objectReader) compare(before, after, folder string, changed map[string]bool) {
	if before == after || len(changed) >= maxChanged {
		return
	}
	old := r.entries(before)
	for name, now := range r.entries(after) {
		was, path := old[name], filepath.Join(folder, name)
		switch {
		case was == now || !filepath.IsLocal(name) || strings.Contains(name, "/") || len(changed) >= maxChanged:
		case now.mode == folderMode:
			if was.mode != folderMode {
				was.id = ""
			}
			r.compare(was.id, now.id, path, changed)
		case now.mode != submoduleMode:
			changed[path] = true
		}
	}
}

// The modes of a folder and of a submodule in a tree.
const (
	folderMode    = "40000"
	submoduleMode = "160000"
)

type treeEntry struct{ mode, id string }

// entries returns the entries of a tree by name; nil: it cannot be read.
func (r *objectReader) entries(id string) map[string]treeEntry {
	kind, tree, err := r.read(id)
	if err != nil || kind != typeNames[isTree] {
		return nil
	}
	found := map[string]treeEntry{}
	for len(tree) > 0 {
		head, rest, ok := bytes.Cut(tree, []byte{0})
		mode, name, named := strings.Cut(string(head), " ")
		if !ok || !named || len(rest) < idSize {
			return nil
		}
		found[name] = treeEntry{mode, hex.EncodeToString(rest[:idSize])}
		tree = rest[idSize:]
	}
	return found
}
