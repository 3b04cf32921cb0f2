package policytool

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// fields returns a message as the fields of a JSON object, with the names of the .proto file, including empty fields,
// so that scripts need no defaults.
func fields(m proto.Message) (map[string]any, error) {
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write %s as JSON: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	var object map[string]json.RawMessage // numbers keep their digits
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("write %s as JSON: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	all := map[string]any{}
	for name, value := range object {
		all[name] = value
	}
	return all, nil
}
