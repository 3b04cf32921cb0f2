package host

import (
	"slices"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// linkedAgents holds the agents of a supervisor, oldest first. The zero value is ready.
type linkedAgents struct {
	mu  sync.Mutex
	all []*linkedAgent
	// gone sums the counters of the links that have ended.
	gone supervisorv1.LinkCounters
}

// add adds an agent.
func (as *linkedAgents) add(la *linkedAgent) {
	as.mu.Lock()
	defer as.mu.Unlock()
	as.all = append(as.all, la)
}

// remove removes an agent that has ended, and keeps its counters.
func (as *linkedAgents) remove(la *linkedAgent) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if i := slices.Index(as.all, la); i >= 0 {
		as.all = slices.Delete(as.all, i, i+1)
		add(&as.gone, la.Counters())
	}
}

// list returns the agents.
func (as *linkedAgents) list() []*linkedAgent {
	as.mu.Lock()
	defer as.mu.Unlock()
	return slices.Clone(as.all)
}

// sessionOf returns the session that a scope belongs to, or "".
func (as *linkedAgents) sessionOf(scope string) string {
	for _, la := range as.list() {
		if id := la.table.SessionOf(scope); id != "" {
			return id
		}
	}
	return ""
}

// counters returns the sum of the counters of all links, ended ones included.
func (as *linkedAgents) counters() *supervisorv1.LinkCounters {
	as.mu.Lock()
	defer as.mu.Unlock()
	sum := &supervisorv1.LinkCounters{}
	add(sum, &as.gone)
	for _, la := range as.all {
		add(sum, la.Counters())
	}
	return sum
}

func add(sum, c *supervisorv1.LinkCounters) {
	total := sum.ProtoReflect()
	c.ProtoReflect().Range(func(counter protoreflect.FieldDescriptor, n protoreflect.Value) bool {
		total.Set(counter, protoreflect.ValueOfUint64(total.Get(counter).Uint()+n.Uint()))
		return true
	})
}
