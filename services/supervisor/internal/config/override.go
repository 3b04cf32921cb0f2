package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/acphost/acphost/internal/yamlproto"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
)

// SetPolicy replaces permission.policy, and the user's rule file at its default path. policy is the name of a ready
// policy, or a file relative to the working directory. It is for a flag, and must be called before anything is started.
// All other settings remain, including the administrator's and a workspace's rule files.
func (c *Config) SetPolicy(policy string) error {
	if policy == "" {
		return errors.New("expected a file or the name of a ready policy (" + strings.Join(readyPolicies, ", ") + "), got nothing")
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	c.Proto.Permission = cmp.Or(c.Proto.Permission, &configv1.Permission{})
	doc, err := yamlproto.Parse("--policy", []byte("{}\n"))
	if err != nil {
		return err
	}
	v := checker{doc: doc, base: dir}
	p := c.Proto.GetPermission()
	before := p.GetPolicy()
	p.Policy = v.rules(policy)
	v.policy(c.Proto)
	if !IsReadyPolicy(p.GetPolicy()) && len(v.problems) == 0 {
		v.ruleFile(path("permission.policy"), p.GetPolicy())
	}
	if len(v.problems) > 0 {
		p.Policy = before
		var said []string
		for _, problem := range v.problems {
			if e, ok := errors.AsType[*yamlproto.Error](problem); ok {
				said = append(said, e.Message)
			}
		}
		return errors.New(strings.Join(said, "; "))
	}
	c.userPolicy = ""
	return nil
}

// HasRules reports whether rules decide about actions in a workspace: a policy was chosen, or the workspace has rules
// of its own that are used. dir is the workspace's folder, or empty if it is unknown.
func (c *Config) HasRules(dir string) bool {
	if c.PolicySet() {
		return true
	}
	if dir == "" || !c.WorkspaceRules() {
		return false
	}
	_, err := os.Lstat(filepath.Join(dir, WorkspacePolicy))
	return err == nil
}

// WorkspaceRules reports whether the rules of workspaces are used.
func (c *Config) WorkspaceRules() bool {
	return c.Proto.GetPermission().GetWorkspacePolicy() != "ignore"
}
