package layers

import (
	"errors"
	"fmt"
	"io/fs"

	"google.golang.org/protobuf/encoding/protojson"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// readTrust reads which workspace files are trusted: real path to SHA-256. A missing file trusts nothing.
func readTrust(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	data, err := readFile(path, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	store := &permissionv1.TrustStore{}
	if err := protojson.Unmarshal(data, store); err != nil {
		return nil, fmt.Errorf("%s is not what \"acphost policy trust\" writes: %w", path, err)
	}
	trusted := map[string]string{}
	for _, f := range store.GetFiles() {
		trusted[f.GetPath()] = f.GetSha256()
	}
	return trusted, nil
}
