// Package users finds users in the database of this system, for starting processes as a user.
package users

import (
	"bufio"
	"fmt"
	"os"
	"os/user"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/acphost/acphost/internal/proc"
)

// Lookup finds a user by name or number, for starting processes as that user. It returns nil if this process already
// runs as the user. The error wraps proc.ErrNotRoot if this process cannot change its user.
func Lookup(name string) (*proc.User, error) {
	u, err := Find(name)
	switch {
	case err != nil:
		return nil, err
	case int(u.UID) == os.Geteuid():
		return nil, nil
	case os.Geteuid() != 0:
		return nil, fmt.Errorf("user %q: %w, and this one runs as %d: start acphost as root, or leave the user out",
			name, proc.ErrNotRoot, os.Geteuid())
	}
	return u, nil
}

// Find finds a user of this system by name or number, also the user of this process.
func Find(name string) (*proc.User, error) {
	u, err := user.Lookup(name)
	if err != nil {
		byID, idErr := user.LookupId(name)
		if idErr != nil {
			return nil, fmt.Errorf("user %q: %w: name one that this system knows (getent passwd)", name, err)
		}
		u = byID
	}
	ids, wrong := u.GroupIds()
	if wrong != nil {
		wrong = fmt.Errorf("groups: %w", wrong)
	}
	number := func(what, text string) uint32 {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil && wrong == nil {
			wrong = fmt.Errorf("%s: %w", what, err)
		}
		return uint32(n)
	}
	found := &proc.User{Name: u.Username, UID: number("uid", u.Uid), GID: number("gid", u.Gid), Home: u.HomeDir, Shell: loginShell(u.Uid)}
	for _, id := range ids {
		found.Groups = append(found.Groups, number("groups", id))
	}
	if wrong != nil {
		return nil, fmt.Errorf("user %q: %w", name, wrong)
	}
	return found, nil
}

// Self returns the user of this process in the form of proc.User.String.
var Self = sync.OnceValue(func() string {
	uid := os.Geteuid()
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return fmt.Sprintf("%s (%d)", u.Username, uid)
	}
	return strconv.Itoa(uid)
})

// loginShell returns the login shell of a user in /etc/passwd, if it can run commands.
func loginShell(uid string) string {
	const standard = "/bin/sh"
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return standard
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 7 || fields[2] != uid {
			continue
		}
		switch shell := fields[6]; path.Base(shell) {
		case ".", "nologin", "false", "true", "sync":
			return standard
		default:
			return shell
		}
	}
	return standard
}
