package config_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

var (
	messageLine = regexp.MustCompile(`^message (\w+) \{`)
	fieldLine   = regexp.MustCompile(`^(repeated |optional )?([\w.<>, ]+?) (\w+) = \d+`)
)

// The reference of the configuration is made of the comments in config.proto: "make reference" writes it anew.
func TestReference_HasAllKeys(t *testing.T) {
	source, err := os.ReadFile("../../../../proto/acphost/config/v1/config.proto")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# Reference: configuration\n\nMade from [config.proto](../proto/acphost/config/v1/config.proto) by `make reference`. [Configuration](configuration.md)\n" +
		"explains it by examples. `acphost config check` checks a file, and `acphost config show` shows it with every default.\n")
	known := map[string]bool{}
	for line := range strings.Lines(string(source)) {
		if m := messageLine.FindStringSubmatch(line); m != nil {
			known[m[1]] = true
		}
	}
	var comment []string
	for line := range strings.Lines(string(source)) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "//"); ok {
			comment = append(comment, strings.TrimSpace(text))
			continue
		}
		text := strings.TrimSpace(strings.NewReplacer("<", "&lt;", ">", "&gt;", "|", `\|`, "*", `\*`).Replace(strings.Join(comment, " ")))
		comment = nil
		if m := messageLine.FindStringSubmatch(line); m != nil {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| key | value | |\n|---|---|---|\n", m[1], text)
			continue
		}
		if m := fieldLine.FindStringSubmatch(line); m != nil && text != "" {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m[3], valueOf(m[1], m[2], known), strings.TrimPrefix(text, "Optional. "))
		}
	}
	testkit.Golden(t, "../../../../../docs/reference-configuration.md", b.String())
}

// valueOf is what a key takes, in words.
func valueOf(label, typ string, known map[string]bool) string {
	one := func(typ string) string {
		switch typ {
		case "string":
			return "text"
		case "bool":
			return "true or false"
		case "uint32", "uint64", "int32", "int64":
			return "a whole number"
		case "double":
			return "a number"
		case "google.protobuf.Struct":
			return "a mapping"
		}
		if known[typ] {
			return "[" + typ + "](#" + strings.ToLower(typ) + ")"
		}
		return typ
	}
	switch m := regexp.MustCompile(`^map<(\w+), ([\w.]+)>$`).FindStringSubmatch(typ); {
	case m != nil:
		return "a mapping of names to: " + one(m[2])
	case label == "repeated ":
		return "a list of: " + one(typ)
	}
	return one(typ)
}
