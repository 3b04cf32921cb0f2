package layers

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"

	"github.com/acphost/acphost/services/permd/internal/policy"
)

// State returns the accepted versions of the files, for Load, and their SHA-256. Neither may be modified. An agent can
// change a file and then crash permd: the supervisor that restarts permd passes the state back, so that permd does not
// accept the changed file because of the restart.
func (f *Files) State() (state, digest []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state == nil {
		f.encodeState()
	}
	return f.state, f.digest
}

// encodeState computes state and digest.
func (f *Files) encodeState() {
	b := &permissionv1.Belief{Form: 1, Trusted: f.trusted}
	add := func(s *source) {
		if s.path == "" || len(s.versions) == 0 && !s.overflow {
			return // it cannot change, or has no version
		}
		file := &permissionv1.BelievedFile{Path: s.path, Overflow: s.overflow}
		for _, v := range s.versions {
			file.Versions = append(file.Versions,
				&permissionv1.BelievedVersion{Absent: v.policy == nil, Content: v.content, Layer: v.layer})
		}
		b.Files = append(b.Files, file)
	}
	for _, s := range f.fixed {
		add(s)
	}
	for _, path := range f.order {
		add(f.workspaces[path])
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(b)
	if err != nil { // a path is not UTF-8
		f.log.Warn("the accepted versions of the rule files cannot be kept: after a crash of permd, the current files are accepted", "error", err)
		data = nil
	}
	sum := sha256.Sum256(data)
	f.state, f.digest = append([]byte{}, data...), sum[:]
}

// decodeState decodes the state from before permd ended. Nil if none exists.
func decodeState(state []byte) (*permissionv1.Belief, error) {
	if len(state) == 0 {
		return nil, nil //nolint:nilnil // none exists
	}
	b := &permissionv1.Belief{}
	if err := proto.Unmarshal(state, b); err != nil {
		return nil, fmt.Errorf("decode the accepted rules from before the restart of permd: %w", err)
	}
	return b, nil
}

// removeEntry removes the entry of a source from a state, in which the fixed files come first; nil if none exists.
func removeEntry(b *permissionv1.Belief, s *source) *permissionv1.BelievedFile {
	i := slices.IndexFunc(b.GetFiles(), func(file *permissionv1.BelievedFile) bool { return file.GetPath() == s.path })
	if i < 0 {
		return nil
	}
	file := b.Files[i]
	b.Files = slices.Delete(b.Files, i, i+1)
	return file
}

// restoreWorkspaces restores the workspaces' files, which are the remaining entries of a state.
func (f *Files) restoreWorkspaces(b *permissionv1.Belief) error {
	var errs []error
	for _, file := range b.GetFiles() {
		s := f.workspaceSource(file.GetPath())
		if err := s.restore(file, f.env); err != nil {
			errs = append(errs, err)
			continue
		}
		f.cacheSource(s.path, s)
		f.size += s.size()
	}
	return errors.Join(errs...)
}

// restore restores the accepted versions of a file. The file's current content is checked with the next decision.
func (s *source) restore(file *permissionv1.BelievedFile, env policy.Surroundings) error {
	s.overflow = file.GetOverflow()
	for _, v := range file.GetVersions() {
		restored := version{layer: v.GetLayer()}
		if !v.GetAbsent() {
			p, err := policy.Parse(s.name, v.GetContent(), env)
			if err != nil {
				return err
			}
			restored.policy, restored.content = p, v.GetContent()
		}
		s.versions = append(s.versions, restored)
	}
	return nil
}
