package yamlproto_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/yamlproto"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
)

func TestShortForm_SingleValueInMap(t *testing.T) {
	decode := func(text string) (*configv1.Config, error) {
		t.Helper()
		doc, err := yamlproto.Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		doc.ExpandMap("agent.env", "value")
		for i := range doc.Len("serve.agents") {
			doc.ExpandMap(fmt.Sprintf("serve.agents[%d].env", i), "value")
		}
		c := &configv1.Config{}
		return c, doc.Decode(c)
	}
	want, err := decode("agent: {env: {A: {value: x}, B: {file: /f}}}\nserve: {agents: [{name: a}, {env: {A: {value: x}}}]}")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"flow":     "agent: {env: {A: x, B: {file: /f}}}\nserve: {agents: [{name: a}, {env: {A: x}}]}",
		"block":    "agent:\n  env:\n    A: x\n    B:\n      file: /f\nserve:\n  agents:\n  - name: a\n  - env:\n      A: x\n",
		"an alias": "agent: {env: {A: &x x, B: {file: /f}}}\nserve: {agents: [{name: a}, {env: {A: *x}}]}",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := decode(text); err != nil || !proto.Equal(got, want) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	}
	for text, place := range map[string]string{
		"agent: {env: {A: [x]}}":       "f:1:18: agent.env.A",
		"agent: {env: {A: {vale: x}}}": "f:1:19: agent.env.A",
		"agent: {env: [A, B]}":         "f:1:14: agent.env",
	} {
		doc, err := yamlproto.Parse("f", []byte(text))
		if err == nil {
			doc.ExpandMap("agent.env", "value")
			err = doc.Decode(&configv1.Config{})
		}
		if err == nil || !strings.HasPrefix(err.Error(), place) {
			t.Errorf("%q: %v, want it at %s", text, err, place)
		}
	}
	for text, want := range map[string]int{"": 0, "serve: {agents: [{}, {}]}": 2, "serve: {agents: {}}": 0, "serve: null": 0} {
		doc, err := yamlproto.Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := doc.Len("serve.agents"); got != want {
			t.Errorf("%q has %d agents, want %d", text, got, want)
		}
	}
}
