package intent

import (
	"crypto/sha256"
	"maps"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/textform"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// change is a diff of a file; an empty oldText is null.
func change(path, oldText, newText string) string {
	from := "null"
	if oldText != "" {
		from = string(jsonrpc.AppendString(nil, oldText))
	}
	return `{"type":"diff","path":` + string(jsonrpc.AppendString(nil, path)) + `,"oldText":` + from + `,"newText":` + string(jsonrpc.AppendString(nil, newText)) + `}`
}

// showing is a question about an edit with some content.
func showing(content ...string) acp.ToolCall {
	return acp.ToolCall{ID: "t", Kind: "edit", Content: []byte("[" + strings.Join(content, ",") + "]")}
}

// edited are the edits that leave files with these texts.
func edited(now, then map[string]string) Edits {
	e := Edits{}
	for place, text := range then {
		e[place] = Edit{sha256.Sum256([]byte(now[place])), sha256.Sum256([]byte(text)), sha256.Sum256([]byte(text))}
	}
	return e
}

func TestContents_DiffGivesResultingFile(t *testing.T) {
	long := strings.Repeat("x", maxContent)
	now := map[string]string{
		"/ws/a": "one\ntwo\n", "/ws/empty": "", "/ws/crlf": "one\r\ntwo\r\n", "/ws/bom": "\uFEFFone\n", "/ws/bare": "one\ntwo",
		"/ws/twice": "two two\n", "/ws/overlap": "aaa", "/ws/long": long, "/ws/longer": long + "y", "/real/link/a": "one\n",
	}
	for _, tt := range []struct {
		name string
		tc   acp.ToolCall
		want map[string]string
	}{
		{"the whole file", showing(change("/ws/a", "one\ntwo\n", "one\nthree\n")), map[string]string{"/ws/a": "one\nthree\n"}},
		{"a part of the file", showing(change("/ws/a", "two", "three")), map[string]string{"/ws/a": "one\nthree\n"}},
		{"a part that goes", showing(change("/ws/a", "two\n", "")), map[string]string{"/ws/a": "one\n"}},
		{"a new file", showing(change("/ws/new", "", "new\n")), map[string]string{"/ws/new": "new\n"}},
		{"a new file with an empty oldText", showing(`{"type":"diff","path":"/ws/new","oldText":"","newText":"new"}`), map[string]string{"/ws/new": "new"}},
		{"a new file without oldText", showing(`{"type":"diff","path":"/ws/new","newText":"new"}`), map[string]string{"/ws/new": "new"}},
		{"an empty file", showing(change("/ws/empty", "", "new")), map[string]string{"/ws/empty": "new"}},
		{"carriage returns, as sent", showing(change("/ws/crlf", "two\r\n", "three\r\n")), map[string]string{"/ws/crlf": "one\r\nthree\r\n"}},
		{"new lines, where the file has carriage returns", showing(change("/ws/crlf", "one\ntwo\n", "one\nthree\n")), nil},
		{"a new line for a carriage return", showing(change("/ws/crlf", "two\r\n", "two\n")), map[string]string{"/ws/crlf": "one\r\ntwo\n"}},
		{"a byte order mark that is not shown stays", showing(change("/ws/bom", "one\n", "two\n")), map[string]string{"/ws/bom": "\uFEFFtwo\n"}},
		{"a byte order mark that is shown may go", showing(change("/ws/bom", "\uFEFFone\n", "two\n")), map[string]string{"/ws/bom": "two\n"}},
		{"no new line at the end", showing(change("/ws/bare", "one\ntwo", "one\nthree")), map[string]string{"/ws/bare": "one\nthree"}},
		{"a new line at the end that the file lacks", showing(change("/ws/bare", "one\ntwo\n", "one\nthree\n")), nil},
		{"two parts of one file", showing(change("/ws/a", "one", "1"), change("/ws/a", "two", "2")), map[string]string{"/ws/a": "1\n2\n"}},
		{"two files", showing(change("/ws/a", "two", "2"), change("/ws/bare", "two", "2")), map[string]string{"/ws/a": "one\n2\n", "/ws/bare": "one\n2"}},
		{"one file by two names", showing(change("/ws/link/a", "one", "1"), change("/real/link/a", "\n", "")), map[string]string{"/real/link/a": "1"}},
		{"a relative path", showing(change("a", "two", "2")), map[string]string{"/ws/a": "one\n2\n"}},
		{"a file URL", showing(change("file:///ws/a", "two", "2")), map[string]string{"/ws/a": "one\n2\n"}},
		{"text beside the diff", showing(`{"type":"content","content":{"type":"text","text":"why"}}`, change("/ws/a", "two", "2")), map[string]string{"/ws/a": "one\n2\n"}},
		{"a path with ..", showing(change("/ws/docs/../new", "", "new\n")), nil},
		{"a path with long blanks", showing(change("/ws/docs"+strings.Repeat(" ", 200)+"/new", "", "new\n")), nil},
		{"a path with a letter that shows nothing", showing(change("/ws/\u3164new", "", "new\n")), nil},
		{"a path with a change of direction", showing(change("/ws/\u202ewen", "", "new\n")), nil},
		{"a text that the file does not hold", showing(change("/ws/a", "four", "five")), nil},
		{"a text that stands in the file twice", showing(change("/ws/twice", "two", "2")), nil},
		{"a text that overlaps itself", showing(change("/ws/overlap", "aa", "b")), nil},
		{"a new file that is there", showing(change("/ws/a", "", "new\n")), nil},
		{"a file that cannot be read", showing(change("/ws/unreadable", "", "new\n")), nil},
		{"one part that is certain and one that is not", showing(change("/ws/a", "two", "2"), change("/ws/a", "nine", "9")), nil},
		{"1 MiB", showing(change("/ws/long", long, long[1:])), map[string]string{"/ws/long": long[1:]}},
		{"more than 1 MiB before", showing(change("/ws/longer", long+"y", "short")), nil},
		{"more than 1 MiB after", showing(change("/ws/new", "", long+"y")), nil},
		{"no new text", showing(`{"type":"diff","path":"/ws/new","oldText":null}`), nil},
		{"half a character", showing(`{"type":"diff","path":"/ws/new","newText":"\ud800"}`), nil},
		{"an old text that is none", showing(`{"type":"diff","path":"/ws/new","oldText":7,"newText":"new"}`), nil},
		{"two new texts", showing(`{"type":"diff","path":"/ws/new","newText":"a","newText":"b"}`), nil},
		{"two new texts in two spellings", showing(`{"type":"diff","path":"/ws/new","newText":"a","NewText":"b"}`), nil},
		{"a location alone", acp.ToolCall{ID: "t", Kind: "edit", Locations: []byte(`[{"path":"/ws/a"}]`)}, nil},
		{"a location beside the diff of another file", acp.ToolCall{ID: "t", Kind: "edit", Locations: []byte(`[{"path":"/ws/bare"}]`),
			Content: []byte("[" + change("/ws/a", "two", "2") + "]")}, map[string]string{"/ws/a": "one\n2\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := inSession("")
			read := map[string]int{}
			got := s.Shown(Question(s, tt.tc), tt.tc, func(p *permissionv1.PathAccess) (string, textform.Form, bool) {
				read[PlaceOf(p)]++
				return now[PlaceOf(p)], textform.Form{}, p.GetPath() != "/ws/unreadable"
			})
			if want := edited(now, tt.want); !maps.Equal(got, want) {
				t.Errorf("got %d files, want %d: %v", len(got), len(want), got)
			}
			for place, n := range read {
				if n != 1 {
					t.Errorf("%s was read %d times", place, n)
				}
			}
		})
	}
}

func TestContents_KeepsBOMAndLineEnds(t *testing.T) {
	const now = "\ufeffone\r\ntwo\r\n"
	for name, tt := range map[string]struct {
		tc       acp.ToolCall
		writes   []string // that make what the diff shows
		another  []string // that do not
		shownAll bool
	}{
		"in the file's form":      {showing(change("/ws/a", "two\r\n", "2\r\n3\r\n")), []string{"\ufeffone\r\n2\r\n3\r\n", "one\n2\n3\n"}, []string{"one\n2\n", "one\r\n2\r\n3", ""}, true},
		"within a line":           {showing(change("/ws/a", "two", "2")), []string{"\ufeffone\r\n2\r\n", "one\n2\n"}, []string{"one\n2"}, true},
		"with LF alone":           {showing(change("/ws/a", "two", "2\n3")), nil, []string{"\ufeffone\r\n2\n3\r\n", "one\n2\n3\n"}, false},
		"without the mark":        {showing(change("/ws/a", "\ufeffone", "1")), nil, []string{"1\r\ntwo\r\n", "1\ntwo\n"}, false},
		"the file becomes empty":  {showing(change("/ws/a", now, "")), []string{""}, []string{"\ufeff"}, true},
		"a content of other ends": {showing(change("/ws/a", "one\r\ntwo\r\n", "x\r\r\n")), []string{"\ufeffx\r\r\n"}, []string{"x\r\n", "x\n"}, true},
	} {
		s := inSession("")
		shown := s.Shown(Question(s, tt.tc), tt.tc, func(*permissionv1.PathAccess) (string, textform.Form, bool) { return now, textform.Of(now), true })
		if len(shown) > 0 != tt.shownAll {
			t.Errorf("%s: %d edits are certain", name, len(shown))
		}
		for _, writes := range []struct {
			of   []string
			want bool
		}{{tt.writes, true}, {tt.another, false}} {
			for _, content := range writes.of {
				if _, got := shown.Make(&File{"/ws/a", sha256.Sum256([]byte(content))}); got != writes.want {
					t.Errorf("%s: a write of %q makes it: %t", name, content, got)
				}
			}
		}
	}
}

func TestContents_LimitsFiles(t *testing.T) {
	var all []string
	for i := range maxShownFiles + 5 {
		all = append(all, change("/ws/"+strings.Repeat("n", i+1), "", "new"))
	}
	s, tc, read := inSession(""), showing(all...), 0
	got := s.Shown(Question(s, tc), tc, func(*permissionv1.PathAccess) (string, textform.Form, bool) {
		read++
		return "", textform.Form{}, true
	})
	if len(got) != maxShownFiles || read != maxShownFiles {
		t.Errorf("%d files are known and %d were read, want %d", len(got), read, maxShownFiles)
	}
}

func TestContents_WriteHasSentContent(t *testing.T) {
	for params, want := range map[string]map[string]string{ // the one file
		`{"path":"/ws/a","content":"one\r\n\ufefftwo"}`:                          {"/ws/a": "one\r\n\uFEFFtwo"},
		`{"path":"/ws/./a","content":""}`:                                        {"/ws/a": ""},
		`{"path":"/ws/link/a","content":"\u0061"}`:                               {"/real/link/a": "a"},
		`{"path":"/ws/a","content":"\udc00"}`:                                    nil,
		`{"path":"/ws/a"}`:                                                       nil,
		`{"content":"a"}`:                                                        nil,
		`{"path":"/ws/a","content":` + strings.Repeat("7", 3) + `}`:              nil,
		`{"path":"/ws/a","content":"` + strings.Repeat("x", maxContent+1) + `"}`: nil,
	} {
		got := Written(called(params, "write"), []byte(params))
		if (got == nil) != (want == nil) {
			t.Errorf("%.60s: got %v", params, got)
		}
		if _, ok := edited(nil, want).Make(got); ok != (want != nil) {
			t.Errorf("%.60s: got %v", params, got)
		}
	}
	if got := Written(called(`{"path":"/ws/a"}`, "read"), []byte(`{"path":"/ws/a","content":"a"}`)); got != nil {
		t.Errorf("a read writes %v", got)
	}
}
