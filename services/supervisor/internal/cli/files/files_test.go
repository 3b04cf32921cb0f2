package files

import (
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

const (
	read    = supervisorv1.FileAction_FILE_ACTION_READ
	blocked = supervisorv1.FileAction_FILE_ACTION_BLOCKED
)

func TestTree_SortsByHeat(t *testing.T) {
	var text strings.Builder
	printTree(&text, 7, 0, &supervisorv1.SessionFiles{SessionId: "s\x1b[2J", Roots: []string{"/w"}, Files: []*supervisorv1.TouchedFile{
		{Path: "/w/src/b.go", Action: read, Turn: 2, Heat: 1},
		{Path: "/w/.env", Action: blocked, Turn: 2, Heat: 0.5},
		{Path: "/w/src/a.go", Action: read, Turn: 1, Heat: 0.25},
		{Path: "/etc/hosts", Action: read, Turn: 1, Heat: 0.1},
	}})
	want := `supervisor 7, session s\u{1b}[2J, /w
        src/
  100%    b.go                                    read, turn 2
   25%    a.go                                    read, turn 1
   50%  .env                                      blocked, turn 2
        /etc/
   10%    hosts                                   read, turn 1
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}

func TestTree_PrintsChangesOnce(t *testing.T) {
	known, printed := tree{}, strings.Builder{}
	for _, r := range []*supervisorv1.SessionFiles{
		{SessionId: "s", Files: []*supervisorv1.TouchedFile{{Path: "/w/a", Action: read, InContext: true, Heat: 1}}},
		{SessionId: "s", Files: []*supervisorv1.TouchedFile{{Path: "/w/a", Action: read, Heat: 1}}},
		{SessionId: "s", Files: []*supervisorv1.TouchedFile{{Path: "/w/a", Action: read, Heat: 0.95}}},
		{SessionId: "s", Removed: []string{"/w/a"}},
	} {
		change := &supervisorv1.WatchFilesResponse{Sessions: []*supervisorv1.SessionFiles{r}}
		printChanges(&printed, known, change)
		known.take(change)
	}
	if want := "s  read        /w/a\ns  left        /w/a\ns  cold        /w/a\n"; printed.String() != want {
		t.Errorf("got %q, want %q", printed.String(), want)
	}
	if len(known) != 0 {
		t.Errorf("there is still %v", known)
	}
}

func TestTree_FitsTerminal(t *testing.T) {
	deep := "/w/" + strings.Repeat("d/", 100) + "\x1b[2Jend"
	s := &supervisorv1.SessionFiles{SessionId: "s", Roots: []string{"/w"}, Files: []*supervisorv1.TouchedFile{
		{Path: "/w/" + strings.Repeat("long", 100), Action: read, Turn: 2, Heat: 1},
		{Path: "/w/日本語.md", Action: read, Turn: 2, Heat: 0.5},
		{Path: deep, Action: blocked, Turn: 3, Heat: 0.25},
	}}
	var text strings.Builder
	printTree(&text, 7, 60, s)
	want := `supervisor 7, session s, /w
  100%  longlonglonglonglonglong…  read, turn 2
   50%  日本語.md                  read, turn 2
`
	if got := text.String(); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 5 || strings.Contains(got, "\x1b") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
