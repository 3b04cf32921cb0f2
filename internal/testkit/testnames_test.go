package testkit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sentenceWords are first words of sentences: articles, pronouns, numbers, question words, prepositions, conjunctions.
var sentenceWords = strings.Fields(`
	A An The It Its This That These Those There Who Whose Whom Whoever What Whatever Which
	Nobody Nothing No Not Only Each Every All Both Some Somebody Another Many More One Two Three Four Five
	When Whenever Where Wherever While If As After Before Until Since Because
	Of On In At With Without Within From To By For Into Through Behind Between`)

// A name that begins with the subject of its test is found by a search for the subject, and is listed beside the other
// tests of that subject.
func TestNames_BeginWithSubject(t *testing.T) {
	eachTestFile(t, func(path string, set *token.FileSet, file *ast.File) {
		for _, f := range sentences(file) {
			if declares(t, filepath.Dir(filepath.Join(repository, path)), subject(f.Name.Name)) {
				continue
			}
			t.Errorf("%s: %s begins like a sentence: name what is tested first, as in TestConnLimit_EvictsOldest",
				set.Position(f.Pos()), f.Name.Name)
		}
	})
}

func TestSentences_FindsNames(t *testing.T) {
	const source = `package p
func TestAConnectionIsClosed(t *testing.T) {}
func TestWhoWaits(t *testing.T) {}
func FuzzInput_IsRead(f *testing.F) {}
func BenchmarkOf(b *testing.B) {}
func TestACPMethods_Exist(t *testing.T) {}
func TestInt_IsParsed(t *testing.T) {}
func TestNotice_Wraps(t *testing.T) {}
func TestMain(m *testing.M) {}
func Only() {}
func (Rig) TestOnly() {}
func Testing() {}
`
	file, err := parser.ParseFile(token.NewFileSet(), "p_test.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range sentences(file) {
		got = append(got, f.Name.Name)
	}
	if want := []string{"TestAConnectionIsClosed", "TestWhoWaits", "BenchmarkOf"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDeclares_FindsFunctionsAndTypes(t *testing.T) {
	for name, want := range map[string]bool{"Timeout": true, "declares": false, "ATestThatIsNotThere": false} {
		if got := declares(t, ".", name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// sentences returns the tests, benchmarks, fuzz targets and examples of a file whose names begin with a word of
// sentenceWords.
func sentences(file *ast.File) []*ast.FuncDecl {
	var found []*ast.FuncDecl
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && slices.Contains(sentenceWords, firstWord(withoutKind(f.Name.Name))) {
			found = append(found, f)
		}
	}
	return found
}

// withoutKind returns a test's name without Test, Benchmark, Fuzz or Example; "" if the name is of another function.
func withoutKind(name string) string {
	for _, kind := range []string{"Test", "Benchmark", "Fuzz", "Example"} {
		if rest, ok := strings.CutPrefix(name, kind); ok {
			return rest
		}
	}
	return ""
}

// firstWord returns the first word of a name in camel case: "A" of "AConnection", "ACP" of "ACPMethods"; "" if the name
// does not begin with a capital.
func firstWord(name string) string {
	capitals := len(name) - len(strings.TrimLeft(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
	small := len(name[capitals:]) - len(strings.TrimLeft(name[capitals:], "abcdefghijklmnopqrstuvwxyz0123456789"))
	switch {
	case capitals == 1:
		return name[:1+small]
	case capitals > 1 && small > 0: // the last capital begins the next word
		return name[:capitals-1]
	}
	return name[:capitals]
}

// subject returns a test's name without its kind, up to the underscore.
func subject(name string) string {
	before, _, _ := strings.Cut(withoutKind(name), "_")
	return before
}

// declares reports whether the package in a folder declares a function, method or type of a name outside of its tests.
// The case of letters is ignored. Such a name, as FromAgent, is a subject although it begins like a sentence.
func declares(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				found = found || strings.EqualFold(n.Name.Name, name)
				return false
			case *ast.TypeSpec:
				found = found || strings.EqualFold(n.Name.Name, name)
			}
			return true
		})
	}
	return found
}
