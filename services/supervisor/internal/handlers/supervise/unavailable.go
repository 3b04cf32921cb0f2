package supervise

import (
	"cmp"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Unavailable is the error of a handler that cannot be called now.
type Unavailable struct {
	// Name is the handler's name in the configuration.
	Name string
	// State is never HANDLER_STATE_READY.
	State supervisorv1.HandlerState
	// Cause is the reason; nil: no error occurred.
	Cause error
	// Sidecar: the handler is not started by acphost.
	Sidecar bool
}

// Error describes the state and the cause for people.
func (u *Unavailable) Error() string {
	switch {
	case u.Cause == nil:
		return u.brief()
	case u.State == Failed:
		return fmt.Sprintf("handler %s has failed: %v", u.Name, u.Cause)
	}
	return fmt.Sprintf("%s: %v", u.brief(), u.Cause)
}

// Unwrap returns the cause.
func (u *Unavailable) Unwrap() error { return u.Cause }

// GRPCStatus returns the status for agents: UNAVAILABLE and the state. It omits the cause, whose words an agent could
// take for an answer about its file.
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
