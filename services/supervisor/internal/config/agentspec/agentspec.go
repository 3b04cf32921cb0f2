// Package agentspec resolves a request for an agent: the command, the environment and the name with which the agent is
// started follow from the request, the preset that it names, and the configuration (agent.name, agent.env).
//
// Every command that starts an agent resolves it here: run, prompt, chat, serve, doctor and agents login. The package
// starts nothing, and does not know how a preset is found.
package agentspec

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/internal/regular"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Limits of a request.
const (
	maxName    = 64       // bytes
	maxEnvFile = 64 << 10 // bytes
	maxSize    = 1 << 20  // bytes of command and environment
)

// Resolver resolves requests. The zero value knows no presets and no configuration. Safe for concurrent use.
type Resolver struct {
	// Config has the settings of agents, with files' absolute paths. Nil: none are set.
	Config *configv1.Agent
	// Presets returns the command of a preset, its environment variables ("NAME=value") and its id. Nil: there are no
	// presets.
	Presets func(ctx context.Context, name string) (command, env []string, id string, err error)
}

// Resolve returns the request with the command of its preset, all variables on top of the supervisor's environment (see
// Environ), and a name. The variables of the request override those of the preset, and these override agent.env. Cwd
// stays empty for the supervisor's own. The caller must not change the result. An error is a *fault.Error, or ctx's.
func (r Resolver) Resolve(ctx context.Context, req *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentRequest, error) {
	c := proto.CloneOf(req)
	var own []string
	if req.GetPreset() != "" {
		command, presetEnv, id, err := r.preset(ctx, req.GetPreset())
		if err != nil {
			return nil, err
		}
		c.Preset, c.Command, own = id, slices.Concat(command, req.GetArgs()), presetEnv
	}
	c.Args, c.Env = nil, r.Variables(own)
	maps.Copy(c.Env, req.GetEnv())
	var err error
	if c.Name, err = r.name(c); err != nil {
		return nil, err
	}
	return c, bounded(c)
}

// Variables returns agent.env with the variables of a preset ("NAME=value") over it.
func (r Resolver) Variables(preset []string) map[string]*supervisorv1.EnvValue {
	all := Values(r.Config.GetEnv())
	for _, v := range preset {
		name, value, _ := strings.Cut(v, "=")
		all[name] = &supervisorv1.EnvValue{Source: &supervisorv1.EnvValue_Value{Value: value}}
	}
	return all
}

func (r Resolver) preset(ctx context.Context, name string) (command, env []string, id string, err error) {
	if r.Presets == nil {
		return nil, nil, "", fault.New(fault.NotFound, "start agent %q: no presets are known here; give a command", name)
	}
	command, env, id, err = r.Presets(ctx, name)
	var known *fault.Error
	switch {
	case err == nil && len(command) == 0:
		err = fault.New(fault.NotFound, "start agent %q: its preset has no command", name)
	case err != nil && !errors.As(err, &known) && ctx.Err() == nil:
		err = fault.New(fault.NotFound, "start agent %q: %w", name, err)
	}
	return command, env, id, err
}

// name is the agent's name: the request's, the preset's id, agent.name, or the program's.
func (r Resolver) name(c *supervisorv1.StartAgentRequest) (string, error) {
	switch name := c.GetName(); {
	case name != "" && name != PlainName(name):
		return "", fault.New(fault.Invalid, "start an agent: the name %q has other characters than letters, digits, \"-\", \"_\" and \".\", or more than %d", name, maxName)
	case name != "":
		return name, nil
	case c.GetPreset() != "":
		return PlainName(c.GetPreset()), nil
	}
	return cmp.Or(r.Config.GetName(), PlainName(filepath.Base(c.GetCommand()[0]))), nil
}

// PlainName replaces the characters of a name that are inconvenient in ids, which people type and which are parts of
// other ids. It returns 1 to 64 bytes.
func PlainName(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("-_.", r) {
			return r
		}
		return '-'
	}, name)
	if plain = plain[:min(len(plain), maxName)]; strings.Trim(plain, "-_.") == "" {
		return "agent"
	}
	return plain
}

// bounded rejects a command and an environment that are too long together.
func bounded(c *supervisorv1.StartAgentRequest) error {
	size := len(strings.Join(c.GetCommand(), ""))
	for name, v := range c.GetEnv() {
		size += len(name) + len(v.GetValue()) + len(v.GetFile())
	}
	if size > maxSize {
		return fault.New(fault.Invalid, "start an agent: command and environment have %d bytes, more than the limit of %d", size, maxSize)
	}
	return nil
}

// Values converts the variables of the configuration to those of a request. The result is never nil.
func Values(env map[string]*configv1.EnvValue) map[string]*supervisorv1.EnvValue {
	out := map[string]*supervisorv1.EnvValue{}
	for name, v := range env {
		out[name] = &supervisorv1.EnvValue{Source: &supervisorv1.EnvValue_Value{Value: v.GetValue()}}
		if v.GetFile() != "" {
			out[name].Source = &supervisorv1.EnvValue_File{File: v.GetFile()}
		}
	}
	return out
}

// KeyFiles returns the files that variables are read from, sorted.
func KeyFiles(env map[string]*supervisorv1.EnvValue) (files []string) {
	for _, v := range env {
		if file := v.GetFile(); file != "" {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// Environ returns the whole environment: base with variables over it, sorted. It reads their files, of at most 64 KiB,
// now.
func Environ(base []string, with map[string]*supervisorv1.EnvValue) ([]string, error) {
	env := slices.DeleteFunc(slices.Clone(base), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return with[name] != nil
	})
	for _, name := range slices.Sorted(maps.Keys(with)) {
		value := with[name].GetValue()
		if file := with[name].GetFile(); file != "" {
			var err error
			if value, err = readValue(file); err != nil {
				return nil, fmt.Errorf("read the environment variable %s: %w", name, err)
			}
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}

// readValue reads a small regular file; it does not wait for a FIFO or a device.
func readValue(path string) (string, error) {
	b, err := regular.Read(path, maxEnvFile)
	if err != nil {
		return "", err
	}
	if bytes.IndexByte(b, 0) >= 0 {
		return "", fmt.Errorf("%s has a zero byte in it", path)
	}
	return strings.TrimRightFunc(string(b), unicode.IsSpace), nil
}
