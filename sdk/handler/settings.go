package handler

import (
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/acphost/acphost/internal/yamlproto"
)

// DecodeSettings reads settings into a message of the handler's own, by its field names in snake_case or camelCase. It is
// as strict as acphost's configuration: a name that into does not have, or a value of the wrong type, is INVALID_ARGUMENT
// and names the setting, with its path ("rules[2].action"); all mistakes are named. into is reset first; nil settings are
// the defaults.
func DecodeSettings(s *structpb.Struct, into proto.Message) error {
	proto.Reset(into)
	if s == nil {
		return nil
	}
	text, err := yamlproto.Marshal(s)
	if err == nil {
		err = yamlproto.Unmarshal("settings", text, into)
	}
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "settings: %s", mistakes(err))
	}
	return nil
}

// mistakes are what yamlproto found wrong, without places: the text that they are places in is none that anybody wrote.
func mistakes(err error) string {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var texts []string
		for _, one := range all.Unwrap() {
			texts = append(texts, mistakes(one))
		}
		return strings.Join(texts, "; ")
	}
	if one := new(yamlproto.Error); errors.As(err, &one) && one.Field != "" {
		message, _, _ := strings.Cut(one.Message, " (first on line ")
		return one.Field + ": " + message
	}
	return err.Error()
}
