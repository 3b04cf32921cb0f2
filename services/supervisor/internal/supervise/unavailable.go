package supervise

import (
	"cmp"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Unavailable says that a handler does not answer now, and why.
type Unavailable struct {
	// Name is the handler's name in the configuration.
	Name string
	// State is never HANDLER_STATE_READY.
	State supervisorv1.HandlerState
	// Cause is why; nil: nothing went wrong.
	Cause error
	// Sidecar: somebody else than acphost starts it.
	Sidecar bool
}

// Error says it for people, cause and all.
func (u *Unavailable) Error() string {
	switch {
	case u.Cause == nil:
		return u.brief()
	case u.State == Failed:
		return fmt.Sprintf("handler %s has failed: %v", u.Name, u.Cause)
	}
	return fmt.Sprintf("%s: %v", u.brief(), u.Cause)
}

// Unwrap is the cause.
func (u *Unavailable) Unwrap() error { return u.Cause }

// GRPCStatus is what an agent is told: UNAVAILABLE and the state. The cause may hold words that agents take for an
// answer about their file.
func (u *Unavailable) GRPCStatus() *status.Status { return status.New(codes.Unavailable, u.brief()) }

var doing = map[supervisorv1.HandlerState]string{
	Starting: "is being started",
	Backoff:  "ended and will be started again",
	Failed:   "has failed and will not be started again",
	Stopping: "is being stopped",
	Stopped:  "is stopped",
}

func (u *Unavailable) brief() string {
	if u.Sidecar && (u.State == Starting || u.State == Backoff) {
		return fmt.Sprintf("handler %s cannot be reached: acphost connects again as soon as the sidecar runs", u.Name)
	}
	return fmt.Sprintf("handler %s %s", u.Name, cmp.Or(doing[u.State], "is not ready"))
}
