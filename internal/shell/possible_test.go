package shell_test

import (
	"slices"
	"testing"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func TestHere_MarksPossibleNames(t *testing.T) {
	h := workspace(t, "a.md", "b.md", "src/x.go", "src/y.go")
	for line, want := range map[string]struct {
		of       int
		possible []uint32
	}{
		"cat a.md $(ls | head -1)":                               {0, []uint32{2, 3, 4}},
		"cat $(ls)":                                              {0, nil},
		"cat $(ls | sort)":                                       {0, nil},
		"cat $(grep -rl x src)":                                  {0, []uint32{1, 2}},
		"cat $(grep -rl x --include=x.* .)":                      {0, []uint32{1, 2, 3, 4}},
		"cat $(grep -rl x --include=*.md .)":                     {0, []uint32{1, 2}},
		"cat $(grep -rl x --include=*.md .  src)":                {0, []uint32{1, 2}},
		"cat $(grep -rl x --include=*.go src a.md)":              {0, []uint32{1, 2, 3}},
		"ls | grep md | xargs -r wc -l":                          {2, []uint32{2, 3, 4}},
		"find src -name '*.go' | xargs -r wc -l":                 {1, nil},
		"find src -type f -name x.go -exec cat {} +":             {1, nil},
		"find src -size +1k -exec head -n 1 {} +":                {1, []uint32{3, 4, 5}},
		"find src -iname x.go -exec cat -- {} \\;":               {1, []uint32{2}},
		"for f in $(ls src | tail -1); do cat src/$f a.md; done": {1, []uint32{1}},
		"ls | head -1 | while read -r f; do wc -l \"$f\"; done":  {3, []uint32{2}},
		"f=a.md; cat $f":                                         {0, nil},
	} {
		subs, unparsed := h.Parse(line)
		if cats := slices.DeleteFunc(subs, func(s *permissionv1.SubCommand) bool { return len(s.GetArgv()) == 0 }); unparsed != "" ||
			!slices.Equal(cats[want.of].GetPossibleWords(), want.possible) || cats[want.of].GetDynamic() {
			t.Errorf("%s: %q: got %v, want the words %v of command %d", line, unparsed, subs, want.possible, want.of)
		}
	}
}

func TestWithoutPossible_KeepsCertainWords(t *testing.T) {
	got := shell.WithoutPossible(&permissionv1.SubCommand{
		Argv: []string{"cat", "a", "$x", "b", "<(c)"}, Dynamic: true, DynamicWords: []uint32{2, 4}, TextWords: []uint32{2},
		PipedWords: []uint32{4}, PossibleWords: []uint32{1, 3},
	})
	if !slices.Equal(got.GetArgv(), []string{"cat", "$x", "<(c)"}) || !slices.Equal(got.GetDynamicWords(), []uint32{1, 2}) ||
		!slices.Equal(got.GetTextWords(), []uint32{1}) || !slices.Equal(got.GetPipedWords(), []uint32{2}) {
		t.Errorf("got %v", got)
	}
	if got := shell.WithoutPossible(&permissionv1.SubCommand{Argv: []string{"x", ".env"}, PossibleWords: []uint32{0}}); len(got.GetArgv()) > 0 {
		t.Errorf("of a program that is only possible: got %v", got)
	}
}
