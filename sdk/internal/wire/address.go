package wire

import (
	"fmt"
	"path/filepath"
	"strings"
)

// SplitAddress splits a sidecar's address: "unix:///PATH" or "unix:/PATH", and "tcp://HOST:PORT", whose host and port
// it does not check. what is the name of the address in errors.
func SplitAddress(what, address string) (network, target string, err error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		path = strings.TrimPrefix(path, "//")
		if !filepath.IsAbs(path) {
			return "", "", fmt.Errorf("%s %q: the path of a unix socket must be absolute: unix:///PATH", what, address)
		}
		return "unix", path, nil
	}
	if target, ok := strings.CutPrefix(address, "tcp://"); ok {
		return "tcp", target, nil
	}
	return "", "", fmt.Errorf("%s %q is neither unix:///PATH nor tcp://HOST:PORT", what, address)
}
