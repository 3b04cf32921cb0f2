// Package secretfile decides whether a file is a secret, by its name and by its content.
//
// Lists of names (folder lists) say which files are secrets, and for which of them the content decides: keys and
// certificates, and settings with or without a token. A file with any other name is a secret if it holds a private key.
// The ready-made policies contain the same lists.
//
// It is a heuristic: it misses secrets with unusual names and forms. The package must not know rules, sessions or
// processes. All functions are safe for concurrent use.
package secretfile

import (
	"os"

	"github.com/acphost/acphost/internal/regular"
)

// Verdict is the result for one file.
type Verdict int

const (
	// Ordinary means: no list has the name, and no private key was found, or the content is not known.
	Ordinary Verdict = iota
	// Public means: a list has the name, and the content shows that the file holds no secret.
	Public
	// Secret means: a list has the name, and the content does not show that the file holds no secret.
	Secret
	// HoldsKey means: no list has the name, and the file holds a private key.
	HoldsKey
)

const (
	// MaxContent is the maximum size in bytes of a file on a list whose content decides. A larger file is a secret.
	// Collections of certificate authorities have 250 kB.
	MaxContent = 1 << 20
	// MaxPrefix is the number of bytes at the beginning of a file on no list that are searched for private keys. Of a
	// keystore, MaxContent bytes are read.
	MaxPrefix = 64 << 10
)

// Judge decides about a file. path is absolute and without symbolic links. content is the file's content, or its
// beginning; complete: it is the whole content. With neither, the name decides.
func Judge(path string, content []byte, complete bool) Verdict {
	list := listOf(path)
	switch {
	case list == noList && holdsKey(content, complete):
		return HoldsKey
	case list == noList:
		return Ordinary
	case complete && (list == keyFiles || list == sshFiles) && (isPublicText(content) || isPublicKeystore(content)):
		return Public
	case complete && (list == secretSettings || list == projectSettings) && isPlainSettings(path, content):
		return Public
	}
	return Secret
}

// Needs returns the number of bytes of a file that Judge needs to decide; 0: the name decides. path is as for Judge.
func Needs(path string) int {
	switch listOf(path) {
	case noList:
		return MaxPrefix
	case keyFiles, sshFiles, secretSettings, projectSettings:
		return MaxContent
	}
	return 0
}

// File decides about a file on this machine. path is as for Judge. reads: the content is used. Otherwise a file on no
// list is Ordinary. A file that cannot be read, and a file that is not regular, are judged by their names.
func File(path string, reads bool) Verdict {
	limit := Needs(path)
	switch {
	case limit == 0:
		return Secret
	case limit == MaxPrefix && !reads:
		return Ordinary
	}
	// Opening a device may have effects.
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return Judge(path, nil, false)
	}
	content, complete, err := regular.ReadPrefix(path, limit)
	if err == nil && !complete && isKeystore(content) && limit < MaxContent {
		content, complete, err = regular.ReadPrefix(path, MaxContent)
	}
	if err != nil {
		return Judge(path, nil, false)
	}
	return Judge(path, content, complete)
}
