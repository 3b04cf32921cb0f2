package policytool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/acphost/acphost/internal/paths"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Layers returns the rule files of permd for a session with the working directory dir and these settings: the
// administrator's, the user's, and the workspace's. The administrator's and the workspace's may be missing.
func Layers(
	ctx context.Context, service permissionv1.PolicyServiceClient, settings *permissionv1.Settings, dir string,
) ([]*permissionv1.PolicyFile, error) {
	var files []*permissionv1.PolicyFile
	if name := settings.GetAdminPolicy(); name != "" {
		switch content, err := ReadFile(name, nil); {
		case err == nil:
			files = append(files, &permissionv1.PolicyFile{Name: name, Content: content, Layer: permissionv1.Layer_LAYER_ADMIN})
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("the administrator's rule file: %w", err)
		}
	}
	if name := settings.GetPolicy(); name != "" {
		file, err := ReadPolicy(ctx, service, name, nil, permissionv1.Layer_LAYER_USER)
		if err != nil {
			return nil, fmt.Errorf("the user's rule file: %w", err)
		}
		files = append(files, file)
	}
	if settings.GetWorkspacePolicy() == "" {
		return files, nil
	}
	name := filepath.Join(dir, settings.GetWorkspacePolicy())
	content, err := ReadFile(name, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return files, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the workspace's rule file: %w", err)
	}
	file := &permissionv1.PolicyFile{Name: name, Content: content, Layer: permissionv1.Layer_LAYER_WORKSPACE}
	trusted, err := OpenTrustStore(settings.GetTrust()).Contains(paths.Real(name), content)
	if err != nil {
		return nil, err
	}
	if trusted {
		file.Layer = permissionv1.Layer_LAYER_WORKSPACE_TRUSTED
	}
	return append(files, file), nil
}

// digest returns the digest of a content in the trust store.
func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
