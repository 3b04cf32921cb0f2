package programs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestKeys_ProtectedBeforeStart(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var r *rig
	var protected [][]string
	r = newRig(t, nil, func(o *Options) {
		o.Protect = func(_ context.Context, files []string) error {
			if len(r.ListAgents()) > 0 {
				t.Error("there is an agent already")
			}
			protected = append(protected, files)
			return nil
		}
	})
	file := func(path string) *supervisorv1.EnvValue {
		return &supervisorv1.EnvValue{Source: &supervisorv1.EnvValue_File{File: path}}
	}
	_, a := r.start(func(req *supervisorv1.StartAgentRequest) {
		req.Env = map[string]*supervisorv1.EnvValue{"B": file(key), "A": file(key), "C": {Source: &supervisorv1.EnvValue_Value{Value: "/plain"}}}
	})
	if len(protected) != 1 || !slices.Equal(protected[0], []string{key}) || !slices.Contains(a.spec.Env, "A=hush") {
		t.Errorf("protected are %q, and the agent got %q", protected, a.spec.Env)
	}
}

func TestKeys_ProtectErrorPreventsStart(t *testing.T) {
	r := newRig(t, nil, func(o *Options) {
		o.Protect = func(context.Context, []string) error { return fault.New(fault.Exhausted, "too many") }
	})
	_, err := r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Command: []string{"/opt/bot"}, Env: map[string]*supervisorv1.EnvValue{
		"A": {Source: &supervisorv1.EnvValue_File{File: "/keys/a"}},
	}})
	var f *fault.Error
	if !errors.As(err, &f) || f.Class != fault.Exhausted || len(r.ListAgents()) != 0 {
		t.Errorf("got %v with %d agents", err, len(r.ListAgents()))
	}
}
