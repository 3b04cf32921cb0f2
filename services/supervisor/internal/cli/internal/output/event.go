package output

import (
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protojson"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// EventLine formats an event as a line of JSON. Control characters are escaped, so that it is safe on a terminal.
func EventLine(ev *supervisorv1.Event) string {
	data, err := protojson.Marshal(ev)
	if err != nil { // impossible: gRPC rejects text that is not UTF-8
		return ""
	}
	line := jsontext.Value(data)
	if err := line.Compact(); err != nil { // protojson's spaces vary between builds
		return ""
	}
	return safetext.JSON(line) + "\n"
}
