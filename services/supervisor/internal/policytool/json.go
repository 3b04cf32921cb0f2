package policytool

import (
	"encoding/json"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// fields returns a message as the fields of a JSON object, under the names of the .proto file, empty ones too: scripts
// need not know what is left out.
func fields(m proto.Message) (map[string]json.RawMessage, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write %s as JSON: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("write %s as JSON: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return object, nil
}

// with adds a field to an object.
func with(object map[string]json.RawMessage, name, value string) map[string]json.RawMessage {
	object[name], _ = json.Marshal(value)
	return object
}

// printJSON writes one value, indented. protojson varies its spaces on purpose; what is printed here does not vary.
func printJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}
