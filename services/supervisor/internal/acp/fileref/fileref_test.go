package fileref

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReferences_AreFound(t *testing.T) {
	for text, want := range map[string]string{
		"look at @src/a.go, @\"b c.md\" and ask @bob":    `mention src/a.go!, mention b c.md!, mention bob`,
		"@f8.ts:10-20 and @f11.ts#L5":                    `mention f8.ts!, mention f11.ts!`,
		"@a.go:10 @a.go:10:5 @a.go#L5-L9 @a.go#L5C2":     `mention a.go!, mention a.go!, mention a.go!, mention a.go!`,
		"(@f1.go) [@f2.go] `@f3.go` '@f4.go' **@f5.go**": `mention f1.go!, mention f2.go!, mention f3.go!, mention f4.go!, mention f5.go!`,
		"(see @f1.go:3).":                                `mention f1.go!`,
		"(@\"a b.md\")":                                  `mention a b.md!`,
		"@app/(group)/page.tsx":                          `mention app/(group)/page.tsx!`,
		"me@example.com wrote":                           `plain me@example.com`,
		"@types/node":                                    `mention types/node`,
		"@~/notes.md":                                    `mention ~/notes.md`,
		"@/etc/hosts @./Makefile @Makefile @.env":        `mention /etc/hosts!, mention ./Makefile!, mention Makefile, mention .env!`,
		"fix src/plain.go":                               `plain src/plain.go`,
		"in `src/back.py:12` and `my file.txt`":          `plain src/back.py, plain my file.txt, plain file.txt`,
		"[notes](notes.md) [x](a%20b.md#top \"title\")":  `plain notes.md, plain a b.md`,
		"[x](https://example.com/a.go) https://b.c/d.go": ``,
		"file:///w/a%20b.go#L5, (file:///w/c.go:7)":      `uri /w/a b.go!, uri /w/c.go!`,
		"[x](file:///w/a.go)":                            `uri /w/a.go!`,
		"see file://elsewhere/w/a.go":                    ``,
		"and/or ... / . 3.14 e.g.":                       `plain and/or, plain 3.14, plain e.g`,
		"":                                               ``,
	} {
		t.Run(text, func(t *testing.T) {
			var got []string
			for _, r := range In(text, 100) {
				kind := map[Kind]string{Plain: "plain", Mention: "mention", URI: "uri"}[r.Kind]
				got = append(got, kind+" "+r.Name()+map[bool]string{true: "!"}[r.Certain()])
			}
			if got := strings.Join(got, ", "); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestReferences_WholeNameIsFirst(t *testing.T) {
	if got, want := fmt.Sprint(In("@a:10", 1)[0].Names), "[a:10 a]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestReferences_LimitsNumber(t *testing.T) {
	if got := len(In(strings.Repeat("@a.go ", 1000), 7)); got != 7 {
		t.Errorf("got %d references, want 7", got)
	}
	if got := In("@"+strings.Repeat("a", maxPath)+".go", 7); len(got) != 0 {
		t.Errorf("got %d references for a name that is too long", len(got))
	}
	for _, hostile := range []string{"](", "`", "@\"", "((", "@", "\xff"} {
		In(strings.Repeat(hostile, 64<<10/len(hostile)), 1000)
	}
}

func FuzzReferences(f *testing.F) {
	f.Add("see @a.go:10 (`b c/d.py`), [x](file:///y)")
	f.Add("\u0130\u023a\u212aFile:///y") // lower case has other lengths
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range In(text, 50) {
			if len(r.Names) == 0 || len(r.Name()) > maxPath {
				t.Errorf("got %+v", r)
			}
		}
	})
}

func TestPresent_StaysBelowFolders(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for _, name := range []string{filepath.Join(dir, "a"), filepath.Join(outside, "b")} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(outside, "b"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		filepath.Join(dir, "a"): true, dir: true, filepath.Join(dir, "none"): false,
		filepath.Join(dir, "link"): false, filepath.Join(outside, "b"): false, dir + "/../" + filepath.Base(outside) + "/b": false,
	} {
		if got := Present([]string{"relative", dir}, name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}
