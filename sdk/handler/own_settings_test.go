package handler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

type own struct {
	Paths []string `json:"paths"`
	From  int      `json:"from"`
	Rules []struct {
		Agent string `json:"agent"`
	} `json:"rules"`
}

func (o *own) check() error {
	switch o.From {
	case 0:
		o.From = 9
	case 13:
		return errors.New("from: 13 is unlucky")
	case 14:
		return status.Error(codes.FailedPrecondition, "not now")
	}
	return nil
}

func TestSettings_DecodeIntoStruct(t *testing.T) {
	for name, c := range map[string]struct {
		settings     map[string]any
		validateOnly bool
		code         codes.Code
		message      string
		from         int
	}{
		"all is well":     {map[string]any{"paths": []any{"/a"}, "from": 7, "rules": []any{map[string]any{"agent": "x"}}}, false, codes.OK, "", 7},
		"none":            {nil, false, codes.OK, "", 9},
		"only validated":  {map[string]any{"from": 7}, true, codes.OK, "", 1},
		"an unknown name": {map[string]any{"form": 7}, false, codes.InvalidArgument, "settings: form: no such setting", 1},
		"a nested one":    {map[string]any{"rules": []any{map[string]any{"aegnt": "x"}}}, false, codes.InvalidArgument, "aegnt: no such setting", 1},
		"a wrong type":    {map[string]any{"from": "seven"}, false, codes.InvalidArgument, "settings: from: a string is given where Go wants int", 1},
		"half a number":   {map[string]any{"from": 7.5}, false, codes.InvalidArgument, "settings: from: ", 1},
		"a bad value":     {map[string]any{"from": 13}, false, codes.InvalidArgument, "settings: from: 13 is unlucky", 1},
		"a status":        {map[string]any{"from": 14}, false, codes.FailedPrecondition, "not now", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := Settings[own]{Check: (*own).check}
			if got := s.Load().From; got != 9 {
				t.Errorf("before any settings: from = %d, want Check's default", got)
			}
			configureWith(t, &s, map[string]any{"from": 1}, false)
			err := configureWith(t, &s, c.settings, c.validateOnly)
			if status.Code(err) != c.code || (err != nil && !strings.Contains(err.Error(), c.message)) {
				t.Errorf("Configure = %v, want %v %q", err, c.code, c.message)
			}
			if got := s.Load().From; got != c.from {
				t.Errorf("from = %d, want %d", got, c.from)
			}
		})
	}
}

func TestSettings_WithoutCheck(t *testing.T) {
	var s Settings[own]
	if s.Load().From != 0 {
		t.Error("settings come from nowhere")
	}
	if err := configureWith(t, &s, map[string]any{"from": 3}, false); err != nil || s.Load().From != 3 {
		t.Errorf("Configure = %v, from = %d", err, s.Load().From)
	}
}

func TestSettings_HostFollowsSettingsInEffect(t *testing.T) {
	s := Settings[own]{Check: (*own).check}
	bad, err := structpb.NewStruct(map[string]any{"from": 13})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Host().GetProtectedPaths(); got != nil {
		t.Errorf("before any settings: %q", got)
	}
	for _, c := range []struct {
		path     string
		settings *structpb.Struct
		validate bool
		want     string
	}{{"/a", nil, false, "/a"}, {"/b", nil, true, "/a"}, {"/c", bad, false, "/a"}, {"/d", nil, false, "/d"}} {
		_, _ = s.Configure(context.Background(), &pluginv1.ConfigureRequest{
			Settings: c.settings, ValidateOnly: c.validate, Host: &pluginv1.Host{ProtectedPaths: []string{c.path}},
		})
		if got := s.Host().GetProtectedPaths(); !slices.Equal(got, []string{c.want}) {
			t.Errorf("after %s: %q, want %q", c.path, got, c.want)
		}
	}
}

func configureWith[T any](t *testing.T, s *Settings[T], settings map[string]any, validateOnly bool) error {
	t.Helper()
	var fields *structpb.Struct
	if settings != nil {
		var err error
		if fields, err = structpb.NewStruct(settings); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Configure(context.Background(), &pluginv1.ConfigureRequest{Settings: fields, ValidateOnly: validateOnly})
	return err
}
