package proc

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
)

// User is a user of this system that processes can be started as; package users finds one. It is looked up once and does not change: whoever
// starts several processes as one user passes the same User, and they cannot come to differ.
type User struct {
	// Name is the user's login name.
	Name     string
	UID, GID uint32
	// Groups are the supplementary groups, as the system's group database has them.
	Groups []uint32
	// Home is the home folder; it need not be there. Shell is the login shell, /bin/sh where that is none to run
	// commands with.
	Home, Shell string
}

// ErrNotRoot is wrapped where a process would be started as another user by one that may not.
var ErrNotRoot = errors.New("only root can start a process as another user")

// Credential is what a process is started with to be the user's; nil for a nil User, which changes nothing.
func (u *User) Credential() *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: slices.Clone(u.Groups)}
}

// Become makes this process, all threads of it, the user's, for good: it can only execute another program then. It needs
// root. After an error it may be half done, and the process must end.
func (u *User) Become() error {
	groups := make([]int, len(u.Groups))
	for i, g := range u.Groups {
		groups[i] = int(g)
	}
	err := syscall.Setgroups(groups)
	if err == nil {
		err = syscall.Setgid(int(u.GID))
	}
	if err == nil {
		err = syscall.Setuid(int(u.UID))
	}
	if err != nil {
		return fmt.Errorf("become user %s: %w", u, err)
	}
	return nil
}

// String is the user for people: "nobody (65534)".
func (u *User) String() string { return fmt.Sprintf("%s (%d)", u.Name, u.UID) }

// foreign are variables that name folders of the user who set them; another user cannot use them, or must not.
var foreign = []string{
	"MAIL", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME",
}

// Environ is env, "NAME=VALUE" each, made to fit the user: what this process's own environment says of HOME, USER, LOGNAME
// and SHELL becomes the user's, and what it says of folders of its own is left out. What env has otherwise than this
// process was set on purpose, and stays. env is not changed. For a nil User it is returned as it is.
func (u *User) Environ(env []string) []string {
	if u == nil {
		return env
	}
	own := map[string]string{"HOME": u.Home, "USER": u.Name, "LOGNAME": u.Name, "SHELL": u.Shell}
	out := make([]string, 0, len(env)+len(own))
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		of, fits := own[name]
		switch set, inherited := os.LookupEnv(name); {
		case (!inherited || value != set) && fits:
			delete(own, name)
		case fits:
			entry = name + "=" + of
			delete(own, name)
		case inherited && value == set && slices.Contains(foreign, name):
			continue
		}
		out = append(out, entry)
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		out = append(out, name+"="+own[name])
	}
	return out
}

// CannotStart says what to do about an error of starting a program as the user: that it may not be executed says neither
// by whom nor why. Any other error, and any of a nil User, is returned as it is.
func (u *User) CannotStart(program string, err error) error {
	switch {
	case u == nil || !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EPERM):
		return err
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w: this process may not become user %s: does its container or service take the right to "+
			"change users (CAP_SETUID, CAP_SETGID) away?", err, u)
	}
	return fmt.Errorf("%w: user %s may not execute %s: give everybody the right to execute it and to search the folders "+
		"above it, or install it where that user can reach it, as below /usr/local", err, u, program)
}
