package policy

import foldpkg "github.com/acphost/acphost/internal/fold"

// fold is a path, or a glob, as deny and ask rules match it.
func fold(s string) string { return foldpkg.Path(s) }
