// Package policy decides about actions by the rules of a file. A decision is a pure function of the rules and the
// action: the package keeps no state between decisions, makes no requests, and reads only the rule file, once.
//
// If several rules match, the strictest one applies: deny before ask before allow, in any order. If no rule matches,
// the verdict is ask. Allow rules and other rules treat uncertainty in opposite ways. An allow rule matches only what
// is certain: it never matches by a command or a path that is not fully known. If the part that a deny or ask rule
// judges is not known, that rule makes the verdict ask. So if an agent hides an action, the best result for the agent
// is a question to the user.
//
// Explain shows how a decision is made. Check reports mistakes in a rule file. Both are for users who write rules.
//
// The package knows the normalised action. It must not know how the action was built or how decisions are transported.
package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/acphost/acphost/internal/pathglob"
	"github.com/acphost/acphost/internal/yamlproto"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// maxFile limits a rule file, in bytes.
const maxFile = 1 << 20

// Protected is the id of the built-in rule that protects acphost's own files from agents.
const Protected = "acphost/protected"

// Policy is a compiled rule file. It is immutable, and safe for concurrent use.
type Policy struct {
	// digest is the digest of the rule file; empty if none exists.
	digest string
	// rules are in the order of the file; deny, ask and allow are the rules with that effect.
	rules            []rule
	deny, ask, allow []*rule
	protected        []glob
	// processes: the file decides about processes by separate rules.
	processes bool
	// unattended is the verdict for "ask" without an answer.
	unattended permissionv1.Verdict
}

// Surroundings are the facts about a machine that rules refer to.
type Surroundings struct {
	// Home is the absolute path of "~" in globs. Empty: such globs are errors.
	Home string
	// Protected are absolute paths that no action may access, regardless of the rules.
	Protected []string
	// Real resolves the symbolic links in an absolute path, as filepath.EvalSymlinks does. It is called for the
	// directories in deny and ask rules when the file is read, so that the rules also apply to the real names of these
	// directories. Nil: there are no symbolic links.
	Real func(path string) (string, error)
}

func (s Surroundings) places() places {
	p := places{real: s.Real}
	if s.Home != "" {
		p.homes = []string{s.Home}
		if s.Real != nil {
			if real, err := s.Real(s.Home); err == nil && real != s.Home {
				p.homes = append(p.homes, real)
			}
		}
	}
	return p
}

// Parse reads a rule file of at most 1 MiB. An error names the file and, for every mistake in it, line, column and
// field.
func Parse(file string, data []byte, s Surroundings) (*Policy, error) {
	l, err := load(file, data, s)
	if err != nil {
		return nil, err
	}
	return l.policy, nil
}

// loaded is the result of loading a rule file.
type loaded struct {
	doc    *yamlproto.Document
	rules  *permissionv1.Policy // as decoded
	policy *Policy
	tests  uint32 // the number of tests that ran
}

// load reads a rule file that may contain mistakes. The result is never nil.
func load(file string, data []byte, s Surroundings) (*loaded, error) {
	l := &loaded{rules: &permissionv1.Policy{}}
	if len(data) > maxFile {
		return l, &yamlproto.Error{File: file, Line: 1, Column: 1, Message: fmt.Sprintf("expected at most %d bytes, got %d", maxFile, len(data))}
	}
	var err error
	if l.doc, err = yamlproto.Parse(file, data); err != nil {
		return l, err
	}
	unread := l.doc.DecodeMeant(l.rules, meant) // the decoded part is checked all the same, so that all mistakes are reported at once
	env, err := environment()
	if err != nil {
		return l, fmt.Errorf("prepare for conditions: %w", err)
	}
	c := compiler{doc: l.doc, file: file, data: data, env: env, places: s.places(), ids: map[string]string{}}
	l.policy = c.policy(l.rules)
	l.tests = c.tests
	if err := yamlproto.Join(unread, c.errs); err != nil {
		return l, err
	}
	if l.policy.protected, err = protectedGlobs(s); err != nil {
		return l, err
	}
	sum := sha256.Sum256(data)
	l.policy.digest = "sha256:" + hex.EncodeToString(sum[:])
	return l, nil
}

// None returns the policy without a rule file: a person is asked about everything, and access to protected paths is
// denied.
func None(s Surroundings) (*Policy, error) {
	globs, err := protectedGlobs(s)
	if err != nil {
		return nil, err
	}
	return &Policy{protected: globs}, nil
}

// Rules returns the number of rules in the file.
func (p *Policy) Rules() int { return len(p.rules) }

func protectedGlobs(s Surroundings) ([]glob, error) {
	var globs []glob
	for _, path := range s.Protected {
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("the protected path %q is not absolute", path)
		}
		pattern := strings.TrimSuffix(pathglob.Escape(filepath.ToSlash(filepath.Clean(path))), "/") + "/**"
		g, err := newGlob(pattern, s.places())
		if err != nil {
			return nil, fmt.Errorf("the protected path %q: %w", path, err)
		}
		globs = append(globs, g)
	}
	return globs, nil
}
