package supervise

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

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
		"that is a swap, which takes a restart of acphost", s.Program, s.Got, s.Want)
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
		if pin != "" && len(s.Command) > 0 {
			// launch refused to start it, or it failed for another reason: only the file can tell.
			if got, digestErr := digest(s.Command[0]); digestErr == nil && !strings.EqualFold(got, pin) {
				return nil, &SwappedError{Program: s.Command[0], Want: pin, Got: got}
			}
		}
		if inner := errors.Unwrap(err); inner != nil { // without the handler's name: it stands in ours
			err = inner
		}
		return nil, err
	}
}

func digest(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
