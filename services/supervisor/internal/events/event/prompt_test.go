package event

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func blockOf(t testing.TB, text string) *supervisorv1.ContentBlock {
	t.Helper()
	b := &supervisorv1.ContentBlock{}
	if err := protojson.Unmarshal([]byte(text), b); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return b
}

var prompts = []struct{ name, block, want string }{
	{"text", `{"text":{"text":"a \"b\"\n\u2028"}}`, `{"type":"text","text":"a \"b\"\n\u2028"}`},
	{"empty text", `{"text":{}}`, `{"type":"text","text":""}`},
	{"annotations and meta", `{"text":{"text":"x"},"annotations":{"audience":["user","assistant"],"lastModified":"2026","priority":0.25},"meta":"{ \"a\":\n[1.0] }"}`,
		`{"type":"text","text":"x","annotations":{"audience":["user","assistant"],"lastModified":"2026","priority":0.25},"_meta":{"a":[1.0]}}`},
	{"empty annotations", `{"text":{"text":"x"},"annotations":{}}`, `{"type":"text","text":"x","annotations":{}}`},
	{"a priority of none", `{"text":{"text":"x"},"annotations":{"priority":0}}`, `{"type":"text","text":"x","annotations":{"priority":0}}`},
	{"an image", `{"image":{"data":"AQID","mimeType":"image/png","uri":"file:///a"}}`, `{"type":"image","data":"AQID","mimeType":"image/png","uri":"file:///a"}`},
	{"an image elsewhere", `{"image":{"mimeType":"image/png","uri":"https://x"}}`, `{"type":"image","data":"","mimeType":"image/png","uri":"https://x"}`},
	{"a sound", `{"audio":{"data":"AQID","mimeType":"audio/wav"}}`, `{"type":"audio","data":"AQID","mimeType":"audio/wav"}`},
	{"a reference", `{"resourceLink":{"uri":"file:///n","name":"n","title":"N","description":"d","mimeType":"text/plain","size":"0"}}`,
		`{"type":"resource_link","uri":"file:///n","name":"n","title":"N","description":"d","mimeType":"text/plain","size":0}`},
	{"a short reference", `{"resourceLink":{"uri":"file:///n","name":"n"}}`, `{"type":"resource_link","uri":"file:///n","name":"n"}`},
	{"a resource of text", `{"resource":{"uri":"file:///n","mimeType":"text/plain","text":""}}`, `{"type":"resource","resource":{"uri":"file:///n","mimeType":"text/plain","text":""}}`},
	{"a resource of bytes", `{"resource":{"uri":"file:///n","blob":"AQID"}}`, `{"type":"resource","resource":{"uri":"file:///n","blob":"AQID"}}`},
}

func TestAppendPrompt_WritesACPBlocks(t *testing.T) {
	var all []*supervisorv1.ContentBlock
	var wants []string
	for _, tt := range prompts {
		c := blockOf(t, tt.block)
		got, err := AppendPrompt([]byte("p="), []*supervisorv1.ContentBlock{c})
		if want := "p=[" + tt.want + "]"; err != nil || string(got) != want {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", tt.name, got, err, want)
		}
		if back := blocks([]byte("["+tt.want+"]"), noLimit); len(back) != 1 || tt.name != "annotations and meta" && !proto.Equal(back[0], c) {
			t.Errorf("%s: read back as %s", tt.name, shown(back[0]))
		}
		all, wants = append(all, c), append(wants, tt.want)
	}
	got, err := AppendPrompt(nil, all)
	if want := "[" + strings.Join(wants, ",") + "]"; err != nil || string(got) != want || !json.Valid(got) {
		t.Errorf("all:\ngot  %s, %v\nwant %s", got, err, want)
	}
	if got, err := AppendPrompt(nil, nil); string(got) != "[]" || err != nil {
		t.Errorf("none: %s, %v", got, err)
	}
}

func TestAppendPrompt_RejectsInvalidBlocks(t *testing.T) {
	nan := math.NaN()
	text := func(s string) *supervisorv1.ContentBlock {
		return &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: s}}}
	}
	priority := text("x")
	priority.Annotations = &supervisorv1.Annotations{Priority: &nan}
	audience := text("x")
	audience.Annotations = &supervisorv1.Annotations{Audience: []string{"\xff"}}
	meta := text("x")
	meta.Meta = "{\"a\":\"\xff\"}"
	tests := []struct {
		name  string
		block *supervisorv1.ContentBlock
		want  string
	}{
		{"nil", nil, "it is empty"},
		{"an empty block", &supervisorv1.ContentBlock{}, "it is empty"},
		{"a type to come", blockOf(t, `{"other":"{}"}`), "a type that ACP v1 does not have"},
		{"no UTF-8", text("a\xff"), "not UTF-8"},
		{"no UTF-8 beside it", audience, "not UTF-8"},
		{"no number", priority, "priority"},
		{"meta that is no UTF-8", meta, "meta"},
		{"meta that is no object", blockOf(t, `{"text":{"text":"x"},"meta":"[1]"}`), "meta"},
		{"meta that is no JSON", blockOf(t, `{"text":{"text":"x"},"meta":"{"}`), "meta"},
		{"an image without data", blockOf(t, `{"image":{"mimeType":"image/png"}}`), "data or a uri"},
		{"an image of no type", blockOf(t, `{"image":{"data":"AQID"}}`), "mimeType is missing"},
		{"a sound without data", blockOf(t, `{"audio":{"mimeType":"audio/wav"}}`), "needs data"},
		{"a reference to nothing", blockOf(t, `{"resourceLink":{"name":"n"}}`), "uri is missing"},
		{"a reference without a name", blockOf(t, `{"resourceLink":{"uri":"u"}}`), "name is missing"},
		{"a resource without a place", blockOf(t, `{"resource":{"text":"x"}}`), "uri is missing"},
		{"an empty resource", blockOf(t, `{"resource":{"uri":"u"}}`), "the resource is empty"},
		{"a resource that is nil", &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Resource{}}, "uri is missing"},
		{"a link that is nil", &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_ResourceLink{}}, "uri is missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := AppendPrompt(nil, []*supervisorv1.ContentBlock{text("fine"), tt.block})
			var f *fault.Error
			if !errors.As(err, &f) || f.Class != fault.Invalid || !strings.HasPrefix(err.Error(), "prompt: block 2: ") || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %s, %v, want an error with %q", got, err, tt.want)
			}
		})
	}
}

func TestMissing_NamesUnsupportedBlocks(t *testing.T) {
	image, audio := blockOf(t, `{"image":{"data":"AQID","mimeType":"image/png"}}`), blockOf(t, `{"audio":{"data":"AQID","mimeType":"audio/wav"}}`)
	resource, link, text := blockOf(t, `{"resource":{"uri":"u","text":"x"}}`), blockOf(t, `{"resourceLink":{"uri":"u","name":"n"}}`), blockOf(t, `{"text":{"text":"x"}}`)
	none, all := &supervisorv1.AgentCapabilities{}, &supervisorv1.AgentCapabilities{PromptImage: true, PromptAudio: true, PromptEmbeddedContext: true}
	everything := []*supervisorv1.ContentBlock{text, image, audio, resource, link}
	if err := Missing(all, everything); err != nil {
		t.Errorf("an agent that takes everything: %v", err)
	}
	for _, caps := range []*supervisorv1.AgentCapabilities{none, nil} {
		if err := Missing(caps, []*supervisorv1.ContentBlock{text, link}); err != nil {
			t.Errorf("text and references: %v", err)
		}
		for what, b := range map[string]*supervisorv1.ContentBlock{"images": image, "sounds": audio, "embedded resources": resource} {
			var f *fault.Error
			err := Missing(caps, []*supervisorv1.ContentBlock{text, b})
			if !errors.As(err, &f) || f.Class != fault.Unsupported || f.Agent.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_NOT_SUPPORTED ||
				f.Agent.GetMessage() != err.Error() || !strings.Contains(err.Error(), "block 2: the agent takes no "+what) {
				t.Errorf("%s: got %v", what, err)
			}
		}
	}
}

func TestLarge_WarnsOfLargeResources(t *testing.T) {
	big := &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Resource{Resource: &supervisorv1.EmbeddedResource{
		Uri: "file:///big", Contents: &supervisorv1.EmbeddedResource_Text{Text: strings.Repeat("x", largeResource+1)},
	}}}
	just := &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Resource{Resource: &supervisorv1.EmbeddedResource{
		Uri: "file:///just", Contents: &supervisorv1.EmbeddedResource_Blob{Blob: make([]byte, largeResource)},
	}}}
	got := Large([]*supervisorv1.ContentBlock{just, nil, big})
	if len(got) != 1 {
		t.Fatalf("got %s", shownAll(got))
	}
	n := got[0].GetNotice()
	if n.GetSeverity() != "warning" || !n.GetFromAcphost() || !strings.Contains(n.GetDescription(), "file:///big") || got[0].GetTime() == nil {
		t.Errorf("got %s", shown(got[0]))
	}
}

func TestMeta_RejectsDeepAndDuplicateMembers(t *testing.T) {
	for meta, want := range map[string]string{
		`{"a" : [1, {"b":"\u2028"}]}`: `{"a":[1,{"b":"\u2028"}]}`,
		`{"a":1,"\u0061":2}`:          "",
		`[]`:                          "",
		`{} {}`:                       "",
		strings.Repeat(`{"a":`, 9998) + "{}" + strings.Repeat("}", 9998): "",
	} {
		b, err := AppendPrompt(nil, []*supervisorv1.ContentBlock{{Content: &supervisorv1.ContentBlock_Text{Text: &supervisorv1.TextContent{Text: "x"}}, Meta: meta}})
		switch {
		case want == "" && err == nil:
			t.Errorf("%.40s is taken: %.80s", meta, b)
		case want != "" && (err != nil || !strings.Contains(string(b), `"_meta":`+want)):
			t.Errorf("%s makes %s (%v)", meta, b, err)
		}
	}
}
