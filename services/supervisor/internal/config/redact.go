package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
)

// redacted stands in place of a secret.
const redacted = "(redacted)"

// Redacted returns a copy of a configuration that can be shown: in the environment, settings and command lines of
// handlers, policies and agents, the values of names that look like those of secrets are replaced, and so are passwords in
// URLs. It goes by names, so it hides more than it must, and cannot know a secret that is called something else.
func Redacted(c *configv1.Config) *configv1.Config {
	c = proto.CloneOf(c)
	for _, h := range slices.Concat(slices.Collect(maps.Values(c.GetHandlers())), c.GetPermission().GetChain()) {
		for name, value := range h.GetEnv() {
			h.Env[name] = redactText(name, value)
		}
		redactArgs(h.GetCommand())
		redactStruct(h.GetSettings(), false)
	}
	redactArgs(c.GetPermission().GetCommand())
	redactEnv(c.GetAgent().GetEnv())
	for _, a := range c.GetServe().GetAgents() {
		redactArgs(a.GetCommand())
		redactEnv(a.GetEnv())
	}
	return c
}

func redactText(name, value string) string {
	if secretName(name) && value != "" {
		return redacted
	}
	return urlPassword.ReplaceAllString(value, "${1}"+redacted+"@")
}

func redactEnv(env map[string]*configv1.EnvValue) {
	for name, value := range env {
		if value != nil {
			value.Value = redactText(name, value.GetValue())
		}
	}
}

// redactArgs redacts "--token=VALUE" and "--token VALUE".
func redactArgs(args []string) {
	secret := false
	for i, arg := range args {
		name, value, joined := strings.Cut(arg, "=")
		switch {
		case secret && !strings.HasPrefix(arg, "-"):
			args[i] = redacted
		case joined:
			args[i] = name + "=" + redactText(name, value)
		default:
			args[i] = urlPassword.ReplaceAllString(arg, "${1}"+redacted+"@")
		}
		secret = strings.HasPrefix(arg, "-") && !joined && secretName(arg)
	}
}

func redactStruct(s *structpb.Struct, secret bool) {
	for name, value := range s.GetFields() {
		redactValue(name, value, secret || secretName(name))
	}
}

// redactValue redacts text only: "max_tokens: 4096" is no secret. Inside of a secret all text is.
func redactValue(name string, v *structpb.Value, secret bool) {
	switch k := v.GetKind().(type) {
	case *structpb.Value_StructValue:
		redactStruct(k.StructValue, secret)
	case *structpb.Value_ListValue:
		for _, item := range k.ListValue.GetValues() {
			redactValue(name, item, secret)
		}
	case *structpb.Value_StringValue:
		if secret && k.StringValue != "" {
			k.StringValue = redacted
		} else {
			k.StringValue = redactText("", k.StringValue)
		}
	}
}

// secretName reports whether a name looks like that of a secret, however it is cased.
func secretName(name string) bool {
	return secretPart.MatchString(name) || secretWord.MatchString(wordBreak.ReplaceAllString(name, "${1}_${2}"))
}

var (
	secretPart  = regexp.MustCompile(`(?i)secret|token|passw|passphrase|credential|api[-_]?key|private[-_]?key|authorization`)
	secretWord  = regexp.MustCompile(`(?i)(^|[^a-z])(key|keys|auth|bearer|cookie|pat|pwd|pin)($|[^a-z])`)
	wordBreak   = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	urlPassword = regexp.MustCompile(`(://[^/@\s:]*:)[^/@\s]+@`)
)
