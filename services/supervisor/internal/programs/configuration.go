package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/regular"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
)

// Bounds on what a caller may ask to be started.
const (
	maxName      = 64
	maxEnvFile   = 64 << 10
	maxConfigure = 1 << 20 // bytes of command and environment
)

// configure makes of a request, which admin has checked, how the agent is started: with the command of its preset, with all
// variables on top of the supervisor's, and with a name. Nobody changes that. Cwd is empty for the supervisor's own.
func (reg *Registry) configure(ctx context.Context, r *supervisorv1.StartAgentRequest) (*supervisorv1.StartAgentRequest, error) {
	c := proto.CloneOf(r)
	c.Args, c.Env = nil, map[string]*supervisorv1.EnvValue{}
	maps.Copy(c.Env, reg.opts.ConfigEnv)
	if r.GetPreset() != "" {
		command, presetEnv, id, err := reg.preset(ctx, r.GetPreset())
		if err != nil {
			return nil, err
		}
		c.Preset, c.Command = id, slices.Concat(command, r.GetArgs())
		for _, v := range presetEnv {
			name, value, _ := strings.Cut(v, "=")
			c.Env[name] = &supervisorv1.EnvValue{Source: &supervisorv1.EnvValue_Value{Value: value}}
		}
	}
	maps.Copy(c.Env, r.GetEnv())
	var err error
	if c.Name, err = nameOf(c); err != nil {
		return nil, err
	}
	return c, bounded(c)
}

func (reg *Registry) preset(ctx context.Context, name string) (command, env []string, id string, err error) {
	if reg.opts.Presets == nil {
		return nil, nil, "", fault.New(fault.NotFound, "start agent %q: no presets are known here; give a command", name)
	}
	command, env, id, err = reg.opts.Presets(ctx, name)
	var known *fault.Error
	switch {
	case err == nil && len(command) == 0:
		err = fault.New(fault.NotFound, "start agent %q: its preset has no command", name)
	case err != nil && !errors.As(err, &known) && ctx.Err() == nil:
		err = fault.New(fault.NotFound, "start agent %q: %w", name, err)
	}
	return command, env, id, err
}

// keyFiles are the files that variables are read from, sorted.
func keyFiles(env map[string]*supervisorv1.EnvValue) (files []string) {
	for _, v := range env {
		if file := v.GetFile(); file != "" {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// nameOf is the agent's name: what was asked for, the preset's id, or the program's.
func nameOf(c *supervisorv1.StartAgentRequest) (string, error) {
	switch name := c.GetName(); {
	case name != "" && name != plainName(name):
		return "", fault.New(fault.Invalid, "start an agent: the name %q has other characters than letters, digits, \"-\", \"_\" and \".\", or more than %d", name, maxName)
	case name != "":
		return name, nil
	case c.GetPreset() != "":
		return plainName(c.GetPreset()), nil
	}
	return plainName(filepath.Base(c.GetCommand()[0])), nil
}

// plainName is a name without what would be a nuisance in ids: they are typed, and parts of others.
func plainName(name string) string {
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

// bounded refuses a command and an environment that are too long together.
func bounded(c *supervisorv1.StartAgentRequest) error {
	size := len(strings.Join(c.GetCommand(), ""))
	for name, v := range c.GetEnv() {
		size += len(name) + len(v.GetValue()) + len(v.GetFile())
	}
	if size > maxConfigure {
		return fault.New(fault.Invalid, "start an agent: command and environment have %d bytes, more than the %d that are taken", size, maxConfigure)
	}
	return nil
}

// environ is the whole environment: base with variables on top, sorted, whose files are read now.
func environ(base []string, with map[string]*supervisorv1.EnvValue) ([]string, error) {
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

// readValue reads a small file without being held up by what only looks like one.
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
