package output

import (
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protojson"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// EventLine is an event as a line of JSON. What a terminal would obey is escaped, for those who look at it on one.
func EventLine(ev *supervisorv1.Event) string {
	data, err := protojson.Marshal(ev)
	if err != nil { // text that is not UTF-8 cannot have come over gRPC
		return ""
	}
	line := jsontext.Value(data)
	if err := line.Compact(); err != nil { // protojson's spaces differ from build to build
		return ""
	}
	return safetext.JSON(line) + "\n"
}
