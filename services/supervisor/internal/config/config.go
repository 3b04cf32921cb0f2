// Package config reads the configuration file: it finds, parses and validates the file, and applies defaults.
//
// The file is YAML in the shape of the message acphost.config.v1.Config. The package knows that message and the
// settings of acphost's own handlers, and names the line and column of a mistake. It must not know how a setting is
// acted on: it starts nothing, and opens no other file.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/acphost/acphost/internal/regular"
	"github.com/acphost/acphost/internal/yamlproto"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/services/supervisor/internal/ownfile"
)

// EnvFile is the environment variable that names the configuration file.
const EnvFile = "ACPHOST_CONFIG"

// maxFileSize bounds the configuration file, in bytes.
const maxFileSize = 1 << 20

// Config is a configuration that was read and found good.
type Config struct {
	// Proto is what the file says, with every relative path and "~" made absolute, and no defaults filled in; see
	// Effective. Never nil.
	Proto *configv1.Config
	// File is the file's absolute path. Empty: there was none, and all is default.
	File string
	// Warnings say what a person should know of the file though it was taken, one sentence each.
	Warnings []string

	folder      string              // acphost's own configuration folder; empty: unknown
	state       string              // acphost's own state folder; empty: unknown
	userPolicy  string              // the user's rule file at its usual place; empty: not there, or not asked
	adminPolicy bool                // the administrator's rule file is there
	doc         *yamlproto.Document // nil without a file
}

// Load reads the configuration. The file is path, else $ACPHOST_CONFIG, else acphost/config.yaml under $XDG_CONFIG_HOME
// or ~/.config. A file that path or $ACPHOST_CONFIG names must exist; without the default one, the defaults count. env
// looks up environment variables, as os.Getenv does. Load looks whether the rule files of the user and of the
// administrator are there; it reads none.
//
// A file without content is an error, because one that was truncated would turn off the policy that it named; "{}" means
// the defaults. A file that others could have written is refused, since it names programs that are started. If its content is wrong,
// the error joins one *yamlproto.Error for each problem.
func Load(path string, env func(string) string) (*Config, error) {
	c := &Config{Proto: &configv1.Config{}, folder: Folder(env), state: ownfile.StateDir(env)}
	if err := c.load(path, env); err != nil {
		return nil, err
	}
	c.look()
	return c, nil
}

func (c *Config) load(path string, env func(string) string) error {
	named := true
	switch {
	case path != "":
	case env(EnvFile) != "":
		path = env(EnvFile)
	case c.folder != "":
		path, named = filepath.Join(c.folder, "config.yaml"), false
	default:
		return nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	data, warnings, err := read(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		if _, err := os.Lstat(path); err == nil { // the defaults would turn the policy off
			return fmt.Errorf("configuration file: %s is a symbolic link to a file that is missing; restore the file, or remove the link for the defaults", path)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("configuration file: %w", err)
	}
	doc, err := yamlproto.Parse(path, data)
	if err != nil {
		return err
	}
	if doc.Empty() { // it may have lost its content: the defaults would turn the policy off
		return fmt.Errorf("configuration file: %s has no content; restore it, or write {} in it for the defaults", path)
	}
	expandPermission(doc)
	expandEnv(doc)
	c.File, c.Warnings, c.doc = path, warnings, doc
	unread := doc.DecodeWhatCanBe(c.Proto) // what could be read is checked all the same: all mistakes are told at once
	v := checker{doc: doc, base: filepath.Dir(path), home: env("HOME")}
	v.config(c.Proto)
	if err := yamlproto.Join(unread, v.problems); err != nil {
		files := v
		files.problems = nil
		if name := c.Proto.GetPermission().GetPolicy(); name != "" && filepath.Ext(name) == "" && !IsReadyPolicy(name) {
			files.ruleFile("permission.policy", v.rules(name)) // a misspelled ready policy would be the next mistake to be told
		}
		return yamlproto.Join(unread, v.problems, files.problems...)
	}
	v.resolve(c.Proto)
	return nil
}

// Folder returns acphost's own folder among the user's configurations: acphost under $XDG_CONFIG_HOME, else under
// ~/.config. Empty: the environment names neither it nor a home directory. env looks up environment variables, as
// os.Getenv does.
func Folder(env func(string) string) string {
	return ownfile.BaseDir(env, "XDG_CONFIG_HOME", ".config", "acphost")
}

// ReadOwn returns the content of a file that says what is started, such as the configuration: a regular one of at most
// 1 MiB that no other user could have written. The error wraps fs.ErrNotExist if it is missing, and else says what to
// do.
func ReadOwn(path string) ([]byte, error) {
	data, _, err := read(path)
	return data, err
}

// read returns the content of a regular file that nobody else may write.
func read(path string) (data []byte, warnings []string, err error) {
	data, err = regular.ReadIf(path, maxFileSize, func(info fs.FileInfo) (err error) {
		warnings, err = trusted(path, info)
		return err
	})
	return data, warnings, err
}

// trusted refuses a file that another user could have written, and warns where one may be able to.
func trusted(path string, info fs.FileInfo) (warnings []string, err error) {
	if owner, _, known := ownfile.Owner(info); known && owner != 0 && owner != os.Geteuid() {
		return nil, fmt.Errorf("%s belongs to user %d, who could have acphost start any program; make it your own: chown %d %s",
			path, owner, os.Geteuid(), path)
	}
	if info.Mode().Perm()&0o002 != 0 {
		return nil, fmt.Errorf("%s can be written by everyone, who could have acphost start any program; chmod o-w %s", path, path)
	}
	if info.Mode().Perm()&0o020 != 0 {
		warnings = append(warnings, fmt.Sprintf("%s can be written by its group; chmod g-w %s, unless you are alone in it", path, path))
	}
	dir := filepath.Dir(path)
	if d, err := os.Stat(dir); err == nil && d.Mode().Perm()&0o002 != 0 && d.Mode()&fs.ModeSticky == 0 {
		return nil, fmt.Errorf("%s lies in a folder that everyone can write, who could replace it; chmod o-w %s", path, dir)
	}
	return warnings, nil
}
