// Package route determines which peer answers each JSON-RPC method of an agent: a handler, the client, or none.
//
// The table of routes is built when the handlers have described themselves. It follows from the descriptors of their
// services (an RPC with the option acphost.acp.v1.method is a route) and from the configuration. Neither the table nor
// the capabilities that acphost advertises are written by hand.
//
// The package knows method names, descriptors and the configured routes. It must not know how a handler is started or
// called, what the gate decides, or what a client can do.
package route

import (
	"slices"
	"sync/atomic"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/transcode"
)

// Target is the kind of peer that answers a method.
type Target uint8

const (
	// Handler is a handler, over gRPC.
	Handler Target = iota
	// Client is the ACP client: the request is forwarded to it.
	Client
	// Deny means that no peer answers: the agent gets an error.
	Deny
)

// String returns the word that the configuration uses: "handler", "front" or "deny".
func (t Target) String() string {
	return [...]string{wordHandler, wordClient, wordDeny}[t]
}

// Route is the target of one method, or of every method of a namespace that has no route of its own. Its fields do not
// change once the table is built; the counters are safe for concurrent use. A Route must not be copied.
type Route struct {
	// Target is the kind of peer that answers.
	Target Target
	// Handler is the handler's name, for target Handler only.
	Handler string
	// Method is the RPC that declares the method. It is set for target Handler, and for other targets if a known
	// descriptor declares the method, so that its params can be decoded; else nil.
	Method *transcode.Method
	// Name is the JSON-RPC method, or a namespace as configured: "_acme.com/*".
	Name string
	// Below is the folder whose sessions the route is for. Empty: all sessions without a route of a folder.
	Below string
	// Action is the kind of action for the gate: "fs.read". For ACP's own methods it comes from the compiled-in
	// descriptors, regardless of a handler's. Empty for a namespace.
	Action string
	// Capability is the path in clientCapabilities that advertises the method, "fs.readTextFile"; empty: none. Its
	// source is that of Action.
	Capability string

	calls  atomic.Uint64
	errors atomic.Uint64
	sample [sampleSize]atomic.Int64 // durations in nanoseconds; the newest replaces the oldest
}

// sampleSize is the number of latest calls for the median: enough to be steady, few enough to sort on demand.
const sampleSize = 64

// Observe counts one call that took d and, if failed, was answered with an error. It neither blocks nor allocates.
func (r *Route) Observe(d time.Duration, failed bool) {
	n := r.calls.Add(1)
	if failed {
		r.errors.Add(1)
	}
	r.sample[(n-1)%sampleSize].Store(int64(d))
}

// Calls returns how many calls were observed.
func (r *Route) Calls() uint64 { return r.calls.Load() }

// Errors returns how many of the observed calls were answered with an error.
func (r *Route) Errors() uint64 { return r.errors.Load() }

// Median returns the median duration of the last 64 observed calls, 0 before the first.
func (r *Route) Median() time.Duration {
	n := min(r.calls.Load(), sampleSize)
	if n == 0 {
		return 0
	}
	var sorted [sampleSize]int64
	for i := range n {
		sorted[i] = r.sample[i].Load()
	}
	slices.Sort(sorted[:n])
	return time.Duration(sorted[n/2])
}

// Title returns the route's name as in the configuration: "terminal/create", "terminal/create below /srv".
func (r *Route) Title() string {
	if r.Below == "" {
		return r.Name
	}
	return r.Name + below + r.Below
}

// State returns the route for operators.
func (r *Route) State() *supervisorv1.Route {
	s := &supervisorv1.Route{
		Method:       r.Title(),
		Target:       r.Target.String(),
		Handler:      r.Handler,
		Action:       r.Action,
		Capability:   r.Capability,
		Calls:        r.Calls(),
		Errors:       r.Errors(),
		MedianMicros: uint64(r.Median().Microseconds()),
	}
	if r.Target == Handler && r.Method != nil {
		s.Rpc = r.Method.RPC
	}
	return s
}
