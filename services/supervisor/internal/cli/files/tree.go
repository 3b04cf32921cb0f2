package files

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// maxDepth limits the depth of a tree. Below it, names are whole paths.
const maxDepth = 32

// usualNames is the usual number of columns of names, and actionColumns the number of columns around them.
const (
	usualNames    = 40
	actionColumns = len("  100%    user referenced, turn 100")
)

// folder is a folder of a tree: its content, and the highest heat of the files below.
type folder struct {
	heat    float64
	folders map[string]*folder
	files   map[string]*supervisorv1.TouchedFile
}

func newFolder() *folder {
	return &folder{folders: map[string]*folder{}, files: map[string]*supervisorv1.TouchedFile{}}
}

// printTree writes the files of a session as a tree, with the hottest folders and files first. columns is the width in
// which a name is shortened so that the action fits beside it; 0 means no limit.
func printTree(text *strings.Builder, pid, columns int, s *supervisorv1.SessionFiles) {
	root := ""
	if len(s.GetRoots()) > 0 {
		root = strings.TrimSuffix(s.GetRoots()[0], "/") + "/"
	}
	session := output.OneLine(s.GetSessionId(), 60)
	if columns == 0 {
		session = output.Whole(s.GetSessionId())
	}
	fmt.Fprintf(text, "supervisor %d, session %s", pid, session)
	if root != "" {
		fmt.Fprintf(text, ", %s", output.Cell(strings.TrimSuffix(root, "/")))
	}
	text.WriteByte('\n')
	top := newFolder()
	for _, file := range s.GetFiles() {
		name := strings.TrimPrefix(file.GetPath(), root)
		at := top
		at.heat = max(at.heat, file.GetHeat())
		parts := strings.SplitN(name, "/", maxDepth)
		for _, part := range parts[:len(parts)-1] {
			if at.folders[part] == nil {
				at.folders[part] = newFolder()
			}
			at = at.folders[part]
			at.heat = max(at.heat, file.GetHeat())
		}
		at.files[parts[len(parts)-1]] = file
	}
	names := usualNames
	if columns > 0 {
		names = max(usualNames/4, min(2*usualNames, columns-actionColumns))
	}
	top.print(text, 0, func(name string) string {
		if columns > 0 {
			name = safetext.Fit(name, names)
		}
		return name + strings.Repeat(" ", max(0, names-safetext.Width(name)))
	})
}

func (f *folder) print(text *strings.Builder, depth int, cell func(string) string) {
	type line struct {
		name string
		heat float64
		in   *folder
		file *supervisorv1.TouchedFile
	}
	var lines []line
	for name, in := range f.folders {
		for len(in.files) == 0 && len(in.folders) == 1 { // one line for a chain of folders without branches
			for next, only := range in.folders {
				name, in = name+"/"+next, only
			}
		}
		lines = append(lines, line{name: name + "/", heat: in.heat, in: in})
	}
	for name, file := range f.files {
		lines = append(lines, line{name: name, heat: file.GetHeat(), file: file})
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Or(cmp.Compare(b.heat, a.heat), cmp.Compare(a.name, b.name)) })
	for _, l := range lines {
		name := strings.Repeat("  ", depth) + output.Cell(l.name)
		if l.in != nil {
			fmt.Fprintf(text, "  %4s  %s\n", "", name)
			l.in.print(text, depth+1, cell)
			continue
		}
		fmt.Fprintf(text, "  %3.0f%%  %s  %s, turn %d\n", 100*l.heat, cell(name), actionWord(l.file.GetAction()), l.file.GetTurn())
	}
}

// actionWord returns the word for an action on a file.
func actionWord(a supervisorv1.FileAction) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(a.String(), "FILE_ACTION_")), "_", " ")
}
