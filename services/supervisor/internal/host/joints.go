package host

import (
	"slices"
	"sync"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// joints are the agents of a supervisor, oldest first. The zero value is ready.
type joints struct {
	mu  sync.Mutex
	all []*joint
	// gone is what passed the links that have ended.
	gone supervisorv1.LinkCounters
}

// add takes a new one.
func (js *joints) add(j *joint) {
	js.mu.Lock()
	defer js.mu.Unlock()
	js.all = append(js.all, j)
}

// remove forgets one that has ended, but for what it counted.
func (js *joints) remove(j *joint) {
	js.mu.Lock()
	defer js.mu.Unlock()
	if i := slices.Index(js.all, j); i >= 0 {
		js.all = slices.Delete(js.all, i, i+1)
		add(&js.gone, j.link.Counters())
	}
}

// list returns those that there are.
func (js *joints) list() []*joint {
	js.mu.Lock()
	defer js.mu.Unlock()
	return slices.Clone(js.all)
}

// sessionOf finds the session that a scope belongs to; "" for none.
func (js *joints) sessionOf(scope string) string {
	for _, j := range js.list() {
		if id := j.book.SessionOf(scope); id != "" {
			return id
		}
	}
	return ""
}

// counters is what passed all links, those that have ended included.
func (js *joints) counters() *supervisorv1.LinkCounters {
	js.mu.Lock()
	defer js.mu.Unlock()
	sum := &supervisorv1.LinkCounters{}
	add(sum, &js.gone)
	for _, j := range js.all {
		add(sum, j.link.Counters())
	}
	return sum
}

func add(sum, c *supervisorv1.LinkCounters) {
	sum.AgentMessages += c.GetAgentMessages()
	sum.AgentBytes += c.GetAgentBytes()
	sum.FrontMessages += c.GetFrontMessages()
	sum.FrontBytes += c.GetFrontBytes()
	sum.RoutedRequests += c.GetRoutedRequests()
	sum.PendingRequests += c.GetPendingRequests()
	sum.RefusedMessages += c.GetRefusedMessages()
}
