package supervise

import (
	"context"
	"errors"
	"fmt"

	"github.com/acphost/acphost/sdk/launch"
)

// SwappedError says that a handler's program is not the one that was started first.
type SwappedError struct {
	// Program is the file.
	Program string
	// Want is the digest of the first start and Got the file's now: SHA-256, hexadecimal.
	Want, Got string
}

// Error says what to do.
func (s *SwappedError) Error() string {
	return fmt.Sprintf("%s is another program now (sha256 %s) than the one that was started first (%s): "+
		"that is a swap, which a person has to order: acphost handler swap", s.Program, s.Got, s.Want)
}

// starter starts or dials what spec says.
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
		if inner := errors.Unwrap(err); inner != nil { // without the handler's name: it stands in ours
			err = inner
		}
		return nil, err
	}
}
