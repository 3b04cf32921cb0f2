package server

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"

	"github.com/acphost/acphost/services/permd/internal/policy"
)

// maxParsed limits the parsed rule files that are cached between calls of Explain.
const maxParsed = 64

// Explain decides on one action by the rule files of the request, or else by those in force, and explains the decision.
// If a file does not load, it returns INVALID_ARGUMENT with every mistake in the file.
func (t tools) Explain(_ context.Context, req *permissionv1.ExplainRequest) (*permissionv1.ExplainResponse, error) {
	if len(req.GetFiles()) == 0 {
		return t.server.files.Load().Explain(req.GetAction()), nil
	}
	parts := make([]policy.Part, len(req.GetFiles()))
	for i, file := range req.GetFiles() {
		p, err := t.parsed.policy(file)
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		parts[i] = policy.Part{Policy: p, Name: file.GetName(), Layer: file.GetLayer()}
	}
	return policy.Explain(parts, req.GetAction()), nil
}

// parsed caches rule files that load, because a caller that goes through a record sends the same files with every
// action. Safe for concurrent use.
type parsed struct {
	mu    sync.Mutex // guards the fields below
	files map[[sha256.Size]byte]*policy.Policy
	order [][sha256.Size]byte // the least recently used first
}

func newParsed() *parsed { return &parsed{files: map[[sha256.Size]byte]*policy.Policy{}} }

// policy parses a file, unless a file with the same content is cached.
func (p *parsed) policy(file *permissionv1.PolicyFile) (*policy.Policy, error) {
	sum := sha256.Sum256(file.GetContent())
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.order, sum); i >= 0 {
		p.order = append(slices.Delete(p.order, i, i+1), sum)
		return p.files[sum], nil
	}
	loaded, err := policy.Parse(file.GetName(), file.GetContent(), surroundings(nil))
	if err != nil {
		return nil, err
	}
	if len(p.order) == maxParsed {
		delete(p.files, p.order[0])
		p.order = slices.Delete(p.order, 0, 1)
	}
	p.files[sum] = loaded
	p.order = append(p.order, sum)
	return loaded, nil
}
