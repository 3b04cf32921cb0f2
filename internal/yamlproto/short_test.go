package yamlproto_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/yamlproto"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
)

// expanded decodes a configuration in which a list is short for a chain, and text in it for a command.
func expanded(t *testing.T, text string) (*yamlproto.Document, *configv1.Config, error) {
	t.Helper()
	doc, err := yamlproto.Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	doc.ExpandList("permission", "chain")
	doc.ExpandTexts("permission.chain", "command")
	c := &configv1.Config{}
	return doc, c, doc.Decode(c)
}

func TestShortForm_EqualsLongForm(t *testing.T) {
	long := "permission: {chain: [{command: [./a]}, {address: 'unix:///s'}, {command: [permd]}]}"
	for name, text := range map[string]string{
		"long":                   long,
		"a list for the message": "permission: [{command: [./a]}, {address: 'unix:///s'}, {command: [permd]}]",
		"texts in a list":        "permission: [./a, {address: 'unix:///s'}, permd]",
		"texts in the long form": "permission: {chain: [./a, {address: 'unix:///s'}, permd]}",
		"block style":            "permission:\n- ./a\n- address: unix:///s\n- permd\n",
		"an alias":               "routes: {\"fs/*\": &x ./a}\npermission: [*x, {address: 'unix:///s'}, permd]",
	} {
		t.Run(name, func(t *testing.T) {
			_, want, err := expanded(t, long)
			if err != nil {
				t.Fatal(err)
			}
			_, got, err := expanded(t, text)
			got.Routes = nil
			if err != nil || !proto.Equal(got, want) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	}
}

func TestShortForm_ExpandsAliasInOnePlace(t *testing.T) {
	_, c, err := expanded(t, "handlers: {x: {command: &c [a, b]}}\npermission: *c\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.GetHandlers()["x"].GetCommand(); len(got) != 2 || got[1] != "b" {
		t.Errorf("the command is %q, want it as it was", got)
	}
	if got := c.GetPermission().GetChain(); len(got) != 2 || got[1].GetCommand()[0] != "b" {
		t.Errorf("the chain is %v, want both", got)
	}
}

func TestShortForm_ErrorsPointToFile(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a number in a list", "permission: [a, 5]", "f:1:17: permission.chain[1]: expected a mapping, got the number 5"},
		{"a field in an element", "permission:\n  - comand: [x]", `f:2:5: permission.chain[0].comand: expected a known field, got "comand" (did you mean "command"?)`},
		{"text for the message", "permission: permd", `f:1:13: permission: expected a mapping, got "permd"`},
		{"a foreign tag", "permission: [!x a]", `f:1:14: permission.chain[0]: expected a plain value, got one with the tag "!x"`},
		{"an alias that contains itself", "permission: &a [*a]", `f:1:13: permission.chain[0]: expected a mapping, got a list`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, err := expanded(t, c.text); err == nil || err.Error() != c.want {
				t.Errorf("error is\n%v\nwant\n%s", err, c.want)
			}
		})
	}
	doc, _, err := expanded(t, "permission:\n  - ./a\n  - permd\n")
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{"permission.chain[1]": "f:3:5: ", "permission.chain[1].command[0]": "f:3:5: ", "permission.chain": "f:2:3: "} {
		if err := doc.Errorf(field, "x"); !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s is at %v, want %s", field, err, want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	for _, text := range []string{"permission: [a]", "permission: &a [*a]", "&a permission: *a", "- permission", "permission: {chain: *b}", "x: &b [c]\npermission: *b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := yamlproto.Parse("f", []byte(text))
		if err != nil {
			return
		}
		doc.ExpandList("permission", "chain")
		doc.ExpandTexts("permission.chain", "command")
		_ = doc.Decode(&configv1.Config{})
		doc.Position("permission.chain[0].command[0]")
	})
}
