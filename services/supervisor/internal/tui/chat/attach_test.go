package chat

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestAttach_MentionedFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("main.go", "package main\n")
	write("a b.txt", "spaces\n")
	write("raw.bin", "\x00\x01\xff")
	write("big.txt", strings.Repeat("x", maxEmbedded+1))
	write("pic.png", "\x89PNG\r\n\x1a\n\x00\x00")
	write("sub/x.ts", "let x\n")
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := &supervisorv1.AgentCapabilities{PromptEmbeddedContext: true, PromptImage: true}
	for _, tt := range []struct {
		text string
		can  *supervisorv1.AgentCapabilities
		want string
	}{
		{"look at @main.go", all, "text resource:main.go"},
		{"look at @main.go", nil, "text link:main.go"},
		{"look at @main.go, please. (@sub/x.ts)", all, "text resource:main.go resource:x.ts"},
		{"`@main.go:1-3` @sub/x.ts#L5", all, "text resource:main.go resource:x.ts"},
		{"@sub/x.ts: why?", all, "text resource:x.ts"},
		{`@"a b.txt"`, all, "text resource:a b.txt"},
		{"@main.go @main.go @./main.go", all, "text resource:main.go"},
		{"@raw.bin @big.txt", all, "text link:raw.bin link:big.txt"},
		{"@pic.png", all, "text image:pic.png"},
		{"@pic.png", &supervisorv1.AgentCapabilities{PromptEmbeddedContext: true}, "text link:pic.png"},
		{"@sub", all, "text link:sub"},
		{"@pipe @nothing me@main.go", all, "text"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			got, err := blocks(tt.text, dir, tt.can)
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, b := range got {
				switch c := b.GetContent().(type) {
				case *supervisorv1.ContentBlock_Text:
					kinds = append(kinds, "text")
				case *supervisorv1.ContentBlock_Resource:
					kinds = append(kinds, "resource:"+unescaped(c.Resource.GetUri()))
				case *supervisorv1.ContentBlock_ResourceLink:
					kinds = append(kinds, "link:"+c.ResourceLink.GetName())
				case *supervisorv1.ContentBlock_Image:
					kinds = append(kinds, "image:"+unescaped(c.Image.GetUri()))
				}
			}
			if got := strings.Join(kinds, " "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func unescaped(uri string) string {
	return strings.ReplaceAll(filepath.Base(uri), "%20", " ")
}

func TestCompletion_ListsPathsBelowWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"main.go", "main_test.go", "my file.txt", ".hidden", "src/a.go", "evil\x1b[31m"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"":       `@main.go @main_test.go @"my file.txt" @src/`,
		"main_":  "@main_test.go",
		"src/":   "@src/a.go",
		".h":     "@.hidden",
		"../":    "",
		"/etc/":  "",
		"evil":   "",
		"none/x": "",
	} {
		var got []string
		for _, it := range completePath(dir, path) {
			got = append(got, it.text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

func TestCompletion_FindsMentionAtCursor(t *testing.T) {
	for before, want := range map[string]string{
		"@": "", "see @ma": "ma", `see @"my f`: "my f", "a\t@b": "b",
	} {
		if got, _, ok := mention(before); !ok || got != want {
			t.Errorf("%q: got %q, %v", before, got, ok)
		}
	}
	for _, before := range []string{"", "a", "me@b", "@a b", `@"a b" c`} {
		if got, _, ok := mention(before); ok {
			t.Errorf("%q: got %q", before, got)
		}
	}
}
