package terminal_test

import (
	"crypto/rand"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/internal/tools/picture/draw"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// pictured is the home folder in pictures.
const pictured = "/home/you"

// picturedPlace is a place whose home has a path as long as that of pictures: lines then break where they do there.
func picturedPlace(t *testing.T) *e2e.Place {
	t.Helper()
	home := ""
	for home == "" {
		name := filepath.Join("/tmp", strings.ToLower(rand.Text())[:len(pictured)-len("/tmp/")])
		switch err := os.Mkdir(name, 0o700); {
		case err == nil:
			home = name
		case !errors.Is(err, os.ErrExist):
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	p := &e2e.Place{Place: &wire.Place{Home: home, Work: filepath.Join(home, "work")}}
	t.Cleanup(func() { p.ExpectNobody(t, nil) })
	for _, dir := range []string{p.Work, filepath.Join(home, "run"), filepath.Join(home, "tmp"), filepath.Join(home, "private")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// moving matches text that changes over time: the spinner, and the duration of a turn.
var (
	spinning = regexp.MustCompile("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]")
	taking   = regexp.MustCompile(`· [0-9ms]+ ·`)
)

// TestPicture_ChatIsCurrent compares docs/chat.svg with a chat. "make picture" writes it.
func TestPicture_ChatIsCurrent(t *testing.T) {
	t.Parallel()
	p := picturedPlace(t)
	p.File(t, "notes.md", e2e.Misspelt)
	p.File(t, "../private/diary.md", "Nobody should read this.\n")
	x := chat(t, p, "--policy", "workspace")
	x.Says("Please fix the spelling in notes.md, and show me that it is right.")
	x.Shows("Asked because", "esc cancels the turn")
	screen, err := x.Tmux("capture-pane", "-p", "-e")
	if err != nil {
		t.Fatalf("%v\n%s", err, screen)
	}
	screen = strings.ReplaceAll(strings.TrimRight(screen, "\n"), p.Home, pictured)
	screen = taking.ReplaceAllString(spinning.ReplaceAllString(screen, "⠹"), "· 3s ·")
	svg := draw.SVG(strings.Split(screen, "\n"), draw.Options{Title: "acphost chat: a question waits", Still: true, Columns: 100})
	textOf(t, svg)
	testkit.Golden(t, "../../docs/chat.svg", svg)
	x.Keys("C-c", "C-c")
	x.Exits()
}

// textOf returns the text of a picture, one line each; the picture must be XML.
func textOf(t *testing.T, svg string) string {
	t.Helper()
	var text strings.Builder
	inText := false
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return text.String()
		}
		if err != nil {
			t.Fatalf("the picture is no XML: %v\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = inText || token.Name.Local == "text"
		case xml.EndElement:
			if token.Name.Local == "text" {
				inText = false
				text.WriteString("\n")
			}
		case xml.CharData:
			if inText {
				text.Write(token)
			}
		}
	}
}

var (
	demoTimes  = regexp.MustCompile(`[0-9.]+(?:ms|µs|s)\b *`)
	demoFolder = regexp.MustCompile(`\S*acphost-demo(?:-[0-9]+)?`)
)

// TestPicture_DemoIsCurrent compares the output of the demo with its transcript and its picture, except for times.
func TestPicture_DemoIsCurrent(t *testing.T) {
	t.Parallel()
	same := func(text string) string {
		var lines []string
		for l := range strings.Lines(demoFolder.ReplaceAllString(demoTimes.ReplaceAllString(text, "TIME "), "FOLDER")) {
			if l = strings.Join(strings.Fields(l), " "); l != "" {
				lines = append(lines, l)
			}
		}
		return strings.Join(lines, "\n")
	}
	p := e2e.NewPlace(t)
	cmd := wire.Command(t, e2e.Program("acphost"), "demo")
	cmd.Env = p.Env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("acphost demo: %v\n%s", err, out)
	}
	kept := func(name string) string {
		data, err := os.ReadFile(filepath.Join("..", "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, text := range map[string]string{"demo.txt": kept("demo.txt"), "demo.svg": textOf(t, kept("demo.svg"))} {
		if got, want := same(text), same(string(out)); got != want {
			t.Errorf("docs/%s is not what the demo prints; make picture\ngot:\n%s\nwant:\n%s", name, got, want)
		}
	}
}
