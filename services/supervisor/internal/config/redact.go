package config

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
)

// Redacted returns a copy of a configuration without secrets: in the environment, settings and command lines of
// handlers, policies and agents, it replaces the values of names that look like those of secrets, values that look like
// secrets, and the value of each header. See package secret.
func Redacted(c *configv1.Config) *configv1.Config {
	c = proto.CloneOf(c)
	for _, h := range slices.Concat(slices.Collect(maps.Values(c.GetHandlers())), c.GetPermission().GetChain()) {
		for name, value := range h.GetEnv() {
			h.Env[name] = secret.Variable(name, value)
		}
		secret.Argv(h.GetCommand())
		redactStruct(h.GetSettings(), false)
	}
	secret.Argv(c.GetPermission().GetCommand())
	redactEnv(c.GetAgent().GetEnv())
	redactHeaders(c.GetTelemetry().GetOtlp().GetHeaders())
	for _, a := range namedAgents(c) {
		secret.Argv(a.GetCommand())
		redactEnv(a.GetEnv())
	}
	return c
}

func redactEnv(env map[string]*configv1.EnvValue) {
	for name, value := range env {
		if value != nil {
			value.Value = secret.Variable(name, value.GetValue())
		}
	}
}

func redactStruct(s *structpb.Struct, hidden bool) {
	for name, value := range s.GetFields() {
		redactValue(name, value, hidden || secret.Name(name))
	}
}

// redactValue redacts strings only: "max_tokens: 4096" is not a secret. If hidden is set, it redacts all strings.
func redactValue(name string, v *structpb.Value, hidden bool) {
	switch k := v.GetKind().(type) {
	case *structpb.Value_StructValue:
		redactStruct(k.StructValue, hidden)
	case *structpb.Value_ListValue:
		for _, item := range k.ListValue.GetValues() {
			redactValue(name, item, hidden)
		}
	case *structpb.Value_StringValue:
		if hidden && k.StringValue != "" {
			k.StringValue = secret.Redacted
		} else {
			k.StringValue = secret.Variable(name, k.StringValue)
		}
	}
}
