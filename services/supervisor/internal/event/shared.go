package event

import (
	"sync"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Shared is an event that many are sent: it is encoded once for all of them. Safe for concurrent use.
type Shared struct {
	// Event is nobody's to change.
	Event *supervisorv1.Event

	once sync.Once
	wire []byte
	err  error
}

// Wire returns the encoded event, which nobody may change.
func (s *Shared) Wire() ([]byte, error) {
	s.once.Do(func() { s.wire, s.err = proto.Marshal(s.Event) })
	return s.wire, s.err
}
