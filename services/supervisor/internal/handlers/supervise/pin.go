package supervise

import (
	"context"
	"errors"
	"fmt"

	"github.com/acphost/acphost/sdk/launch"
)

// SwappedError reports that a handler's program file is not the one that was first started.
type SwappedError struct {
	// Program is the path of the file.
	Program string
	// Want is the digest at the first start, Got the present one: SHA-256, hexadecimal. Both are empty if the program
	// changed before its digest was computed.
	Want, Got string
}

// Error describes the difference and the remedy.
func (s *SwappedError) Error() string {
	how := fmt.Sprintf("is another program now (sha256 %s) than the one that was started first (%s)", s.Got, s.Want)
	if s.Want == "" {
		how = "changed right after its start, before it was measured, and is not started again as it is now"
	}
	return fmt.Sprintf("%s %s: that is a swap, which a person has to order: acphost handler swap", s.Program, how)
}

// pin returns the digest that a program must have, that of the first instance; nil: any digest.
type pin func() string

// digest waits until the digest of the first program is computed, which takes a moment. It must not be called with mu
// held. If the program changed before, it returns an error.
func (p pin) digest(t *target) (string, error) {
	if p == nil {
		return "", nil
	}
	digest := p()
	if digest == "" && !t.sidecar() {
		return "", &SwappedError{Program: t.spec.Command[0]}
	}
	return digest, nil
}

// starter returns a function that starts or connects to the handler of spec.
func starter(spec launch.Spec) func(ctx context.Context, pin string) (Instance, error) {
	return func(ctx context.Context, pin string) (Instance, error) {
		s := spec
		if pin != "" {
			s.SHA256 = pin
		}
		inst, err := launch.Start(ctx, s)
		if err == nil {
			return inst, nil
		}
		if mismatch, ok := errors.AsType[*launch.DigestError](err); ok && pin != "" {
			return nil, &SwappedError{Program: mismatch.Program, Want: mismatch.Want, Got: mismatch.Got}
		}
		if inner := errors.Unwrap(err); inner != nil { // without the handler's name, which the caller's error has
			err = inner
		}
		return nil, err
	}
}
