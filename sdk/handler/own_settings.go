package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

// Settings holds a handler's settings as a Go struct T, whose fields have their names in json tags. Its method
// Configure is a Handler.Configure; Load returns the current settings. The zero value is ready for use, and all methods
// are safe for concurrent use. Settings must not be copied.
//
//	policy := handler.Settings[settings]{Check: (*settings).check}
//	handler.Main(handler.Handler{Configure: policy.Configure, …})
//
// It is for handlers without a protobuf message for their settings; handlers with one call DecodeSettings.
type Settings[T any] struct {
	// Check completes new settings and validates them before they apply: it fills in defaults, and its error rejects
	// the settings, with INVALID_ARGUMENT unless it is a gRPC status. It may be called more than once for the same
	// settings. Nil: all settings are valid.
	Check func(*T) error

	current atomic.Pointer[configured[T]]
}

// configured is the result of a Configure.
type configured[T any] struct {
	settings *T
	host     *pluginv1.Host
}

// Load returns the settings of the last Configure that succeeded; before the first one, the zero value of T as
// completed by Check. They must not be changed.
func (s *Settings[T]) Load() *T {
	if current := s.current.Load(); current != nil {
		return current.settings
	}
	none := new(T)
	if s.Check != nil {
		_ = s.Check(none)
	}
	return none
}

// Host returns the description of the host in the last Configure that succeeded, such as the paths that no agent may
// access. It is nil before the first one, which Host's getters accept, and must not be changed.
func (s *Settings[T]) Host() *pluginv1.Host {
	if current := s.current.Load(); current != nil {
		return current.host
	}
	return nil
}

// Configure decodes the settings and checks them. They apply unless the request only validates; after an error the old
// settings stay. An unknown name, or a value of the wrong type, is INVALID_ARGUMENT with the setting in its text.
func (s *Settings[T]) Configure(_ context.Context, req *pluginv1.ConfigureRequest) ([]string, error) {
	next := new(T)
	if fields := req.GetSettings(); fields != nil {
		text, err := protojson.Marshal(fields)
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "settings: %v", err)
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(next); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "settings: %s", jsonErrorText(err))
		}
	}
	if s.Check != nil {
		if err := s.Check(next); err != nil {
			if st, ok := status.FromError(err); ok {
				return nil, st.Err()
			}
			return nil, status.Errorf(codes.InvalidArgument, "settings: %v", err)
		}
	}
	if !req.GetValidateOnly() {
		s.current.Store(&configured[T]{next, req.GetHost()})
	}
	return nil, nil
}

// jsonErrorText returns the text of an encoding/json error in terms of YAML.
func jsonErrorText(err error) string {
	if wrong := new(json.UnmarshalTypeError); errors.As(err, &wrong) {
		field := wrong.Field
		if field == "" {
			field = "(all)"
		}
		return field + ": a " + wrong.Value + " is given where Go wants " + wrong.Type.String()
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if name, unknown := strings.CutPrefix(text, "unknown field "); unknown {
		return strings.Trim(name, `"`) + ": no such setting"
	}
	return text
}
