package programs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
)

// Bounds on what a caller may ask to be started.
const (
	maxName      = 64
	maxEnvFile   = 64 << 10
	maxConfigure = 1 << 20 // bytes of command and environment
)

// configuration is how an agent is started. It does not change.
type configuration struct {
	Name     string
	Preset   string
	Command  []string
	Cwd      string // as asked for; empty: the supervisor's
	Env      []variable
	Attended bool
}

// variable is an environment variable with a value, or with a file that holds it.
type variable struct{ Name, Value, File string }

// key is equal for configurations that are the same.
func (c *configuration) key() [sha256.Size]byte {
	b, err := json.Marshal(c)
	if err != nil { // it holds strings and booleans alone
		panic(fmt.Sprintf("programs: encode a configuration: %v", err))
	}
	return sha256.Sum256(b)
}

// envNames are the names of the variables that are set on top of the supervisor's.
func (c *configuration) envNames() []string {
	names := make([]string, len(c.Env))
	for i, v := range c.Env {
		names[i] = v.Name
	}
	return names
}

// dir is the working directory of the process, as shown.
func (c *configuration) dir() string {
	if c.Cwd == "" {
		if wd, err := os.Getwd(); err == nil {
			return wd
		}
	}
	return c.Cwd
}

// configure makes sense of a request, which admin has checked.
func (reg *Registry) configure(ctx context.Context, r *supervisorv1.StartAgentRequest) (*configuration, error) {
	c := &configuration{Cwd: r.GetCwd(), Attended: r.GetAttended()}
	env := map[string]variable{}
	overlay(env, reg.opts.ConfigEnv)
	if r.GetPreset() != "" {
		command, presetEnv, id, err := reg.preset(ctx, r.GetPreset())
		if err != nil {
			return nil, err
		}
		c.Preset, c.Command = id, slices.Concat(command, r.GetArgs())
		for _, v := range presetEnv {
			name, value, _ := strings.Cut(v, "=")
			env[name] = variable{Name: name, Value: value}
		}
	} else {
		c.Command = slices.Clone(r.GetCommand())
	}
	overlay(env, r.GetEnv())
	for _, name := range slices.Sorted(maps.Keys(env)) {
		c.Env = append(c.Env, env[name])
	}
	if err := c.named(r.GetName()); err != nil {
		return nil, err
	}
	return c, c.check()
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

// overlay sets variables.
func overlay(env map[string]variable, with map[string]*supervisorv1.EnvValue) {
	for name, v := range with {
		env[name] = variable{Name: name, Value: v.GetValue(), File: v.GetFile()}
	}
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

// named sets the agent's name: what was asked for, the preset's id, or the program's.
func (c *configuration) named(name string) error {
	switch {
	case name != "" && name != plainName(name):
		return fault.New(fault.Invalid, "start an agent: the name %q has other characters than letters, digits, \"-\", \"_\" and \".\", or more than %d", name, maxName)
	case name != "":
		c.Name = name
	case c.Preset != "":
		c.Name = plainName(c.Preset)
	default:
		c.Name = plainName(filepath.Base(c.Command[0]))
	}
	return nil
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

// check bounds the configuration.
func (c *configuration) check() error {
	size := 0
	for _, s := range c.Command {
		size += len(s)
	}
	for _, v := range c.Env {
		size += len(v.Name) + len(v.Value) + len(v.File)
	}
	if size > maxConfigure {
		return fault.New(fault.Invalid, "start an agent: command and environment have %d bytes, more than the %d that are taken", size, maxConfigure)
	}
	return nil
}

// environ is the whole environment, with files read now.
func (c *configuration) environ(base []string) ([]string, error) {
	set := map[string]bool{}
	for _, v := range c.Env {
		set[v.Name] = true
	}
	env := []string{}
	for _, v := range base {
		if name, _, _ := strings.Cut(v, "="); !set[name] {
			env = append(env, v)
		}
	}
	for _, v := range c.Env {
		value := v.Value
		if v.File != "" {
			var err error
			if value, err = readValue(v.File); err != nil {
				return nil, fmt.Errorf("read the environment variable %s: %w", v.Name, err)
			}
		}
		env = append(env, v.Name+"="+value)
	}
	return env, nil
}

// readValue reads a small file without being held up by what only looks like one.
func readValue(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	switch info, err := f.Stat(); {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxEnvFile+1))
	switch {
	case err != nil:
		return "", err
	case len(b) > maxEnvFile:
		return "", fmt.Errorf("%s has more than the %d bytes that are taken", path, maxEnvFile)
	case bytes.IndexByte(b, 0) >= 0:
		return "", fmt.Errorf("%s has a zero byte in it", path)
	}
	return strings.TrimRightFunc(string(b), unicode.IsSpace), nil
}
