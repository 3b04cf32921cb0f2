// Package config reads the configuration file: it finds, parses and validates the file, and applies defaults.
//
// The file is YAML with the fields of the message acphost.config.v1.Config. The package knows that message and the
// settings of acphost's own handlers, and reports the line and column of an error. It must not know the effect of a
// setting: it starts no processes, and reads no other file.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/acphost/acphost/internal/ownfile"
	"github.com/acphost/acphost/internal/regular"
	"github.com/acphost/acphost/internal/yamlproto"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
)

// EnvFile is the environment variable that names the configuration file.
const EnvFile = "ACPHOST_CONFIG"

// maxFileSize bounds the configuration file, in bytes.
const maxFileSize = 1 << 20

// Config is a valid configuration.
type Config struct {
	// Proto contains the values of the file, with every relative path and "~" made absolute, and without defaults; see
	// Effective. It is never nil.
	Proto *configv1.Config
	// File is the absolute path of the file. Empty means that there was none, and that all values are defaults.
	File string
	// Warnings are sentences about problems of a file that was accepted.
	Warnings []string

	folder string // folder of acphost's configuration; empty: unknown
	state  string // folder of acphost's state; empty: unknown
	// the user's rule file at its default path; empty: it does not exist, or was not looked up
	userPolicy  string
	adminPolicy bool                // the administrator's rule file exists
	doc         *yamlproto.Document // nil without a file
}

// Load reads the configuration. The file is path, else $ACPHOST_CONFIG, else acphost/config.yaml under $XDG_CONFIG_HOME
// or ~/.config. A file that path or $ACPHOST_CONFIG names must exist; without the default file, the defaults apply. env
// looks up environment variables, as os.Getenv does. Load checks whether the rule files of the user and of the
// administrator exist; it does not read them.
//
// An empty file is an error, because a truncated file would disable the policy that it named; "{}" means the defaults.
// A file that other users could have written is rejected, because it names programs that are started. If the content is
// invalid, the error joins one *yamlproto.Error for each problem.
func Load(path string, env func(string) string) (*Config, error) {
	c := &Config{Proto: &configv1.Config{}, folder: Folder(env), state: ownfile.StateDir(env)}
	if err := c.load(path, env); err != nil {
		return nil, err
	}
	c.findRuleFiles()
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
		if _, err := os.Lstat(path); err == nil { // the defaults would disable the policy
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
	if doc.Empty() { // it may have been truncated: the defaults would disable the policy
		return fmt.Errorf("configuration file: %s has no content; restore it, or write {} in it for the defaults", path)
	}
	expandPermission(doc)
	expandEnv(doc)
	c.File, c.Warnings, c.doc = path, warnings, doc
	// check the values that could be parsed, so that all errors are reported at once
	unread := doc.DecodeWhatCanBe(c.Proto)
	v := checker{doc: doc, base: filepath.Dir(path), home: env("HOME")}
	v.config(c.Proto)
	if err := yamlproto.Join(unread, v.problems); err != nil {
		files := v
		files.problems = nil
		if name := c.Proto.GetPermission().GetPolicy(); name != "" && filepath.Ext(name) == "" && !IsReadyPolicy(name) {
			// so that a misspelled name of a ready policy is reported at once, too
			files.ruleFile("permission.policy", v.rules(name))
		}
		return yamlproto.Join(unread, v.problems, files.problems...)
	}
	v.resolve(c.Proto)
	return nil
}

// Folder returns the folder of acphost's configuration: acphost under $XDG_CONFIG_HOME, else under ~/.config. It is
// empty if the environment contains neither that variable nor a home directory. env looks up environment variables, as
// os.Getenv does.
func Folder(env func(string) string) string {
	return ownfile.BaseDir(env, "XDG_CONFIG_HOME", ".config", "acphost")
}

// ReadOwn returns the content of a file that determines which programs are started, such as the configuration. It must
// be a regular file of at most 1 MiB that no other user could have written. The error wraps fs.ErrNotExist if it is
// missing. Other errors say what to do.
func ReadOwn(path string) ([]byte, error) {
	data, _, err := read(path)
	return data, err
}

// read returns the content of a regular file that no other user may write.
func read(path string) (data []byte, warnings []string, err error) {
	data, err = regular.ReadIf(path, maxFileSize, func(info fs.FileInfo) (err error) {
		warnings, err = trusted(path, info)
		return err
	})
	return data, warnings, err
}

// trusted returns an error for a file that another user could have written, and a warning for a file that another user
// may be able to write.
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
