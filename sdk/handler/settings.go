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

// DecodeSettings decodes settings into a protobuf message of the handler, by its field names in snake_case or
// camelCase. It is as strict as acphost's configuration: an unknown name, or a value of the wrong type, is
// INVALID_ARGUMENT, with the path of the setting ("rules[2].action") in its text. The error contains all mistakes. into
// is reset first; nil settings are the defaults.
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
		return status.Errorf(codes.InvalidArgument, "settings: %s", mistakeText(err))
	}
	return nil
}

// mistakeText returns the mistakes that yamlproto found, without positions: they refer to a generated text, not to the
// user's.
func mistakeText(err error) string {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var texts []string
		for _, one := range all.Unwrap() {
			texts = append(texts, mistakeText(one))
		}
		return strings.Join(texts, "; ")
	}
	if one := new(yamlproto.Error); errors.As(err, &one) && one.Field != "" {
		message, _, _ := strings.Cut(one.Message, " (first on line ")
		return one.Field + ": " + message
	}
	return err.Error()
}
