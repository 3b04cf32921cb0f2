package event

import (
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func TestParseInfo_ReadsInitializeResult(t *testing.T) {
	tests := []struct{ name, result, want string }{
		{"everything",
			`{"protocolVersion":1,"agentInfo":{"name":"n","title":"N","version":"1.2"},"agentCapabilities":{"loadSession":true,` +
				`"promptCapabilities":{"image":true,"audio":true,"embeddedContext":true},"mcpCapabilities":{"http":true,"sse":true},` +
				`"sessionCapabilities":{"resume":{},"fork":{},"list":{},"close":{},"delete":{},"additionalDirectories":{}},"auth":{"logout":{}}},` +
				`"authMethods":[{"id":"a","name":"A","description":"d"},{"id":"t","name":"T","type":"terminal","args":["x"]},{"id":"e","name":"E","type":"env_var"},{"name":"no id"},7]}`,
			`{"protocolVersion":1,"name":"n","title":"N","version":"1.2","capabilities":{"loadSession":true,"resumeSession":true,"forkSession":true,"listSessions":true,` +
				`"closeSession":true,"deleteSession":true,"additionalDirectories":true,"promptImage":true,"promptAudio":true,"promptEmbeddedContext":true,"mcpHttp":true,"mcpSse":true,"logout":true},` +
				`"authMethods":[{"id":"a","name":"A","description":"d","type":"agent"},{"id":"t","name":"T","type":"terminal"},{"id":"e","name":"E","type":"env_var"}]}`},
		{"nothing", `{}`, `{"capabilities":{}}`},
		{"wrong types",
			`{"protocolVersion":"1","agentInfo":null,"agentCapabilities":{"loadSession":"yes","promptCapabilities":[],"sessionCapabilities":{"resume":null,"fork":true}},"authMethods":{}}`,
			`{"capabilities":{}}`},
		{"version 2", `{"protocolVersion":2.0,"info":{"name":"n","version":"2"},"capabilities":{"session":{}}}`,
			`{"protocolVersion":2,"name":"n","version":"2","capabilities":{"loadSession":true,"resumeSession":true,"listSessions":true,"closeSession":true}}`},
		{"no JSON", "\xff", `{"capabilities":{}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := &supervisorv1.AgentInfo{}
			if err := protojson.Unmarshal([]byte(tt.want), want); err != nil {
				t.Fatal(err)
			}
			got := ParseInfo([]byte(tt.result))
			if got.GetRaw() == "" {
				t.Error("raw is empty")
			}
			if want.Raw = got.GetRaw(); !proto.Equal(got, want) {
				t.Errorf("got  %s\nwant %s", shown(got), shown(want))
			}
			if _, err := proto.Marshal(got); err != nil {
				t.Error(err)
			}
		})
	}
}
