//go:build !linux && !darwin

package peer

func peerUID(int) (uint32, error) { return 0, ErrUnsupported }
