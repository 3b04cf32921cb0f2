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

// User is a user of this system as which processes can be started; package users looks one up. It is immutable: callers
// that start several processes as one user pass the same User, so the processes cannot differ.
type User struct {
	// Name is the user's login name.
	Name     string
	UID, GID uint32
	// Groups are the supplementary groups from the system's group database.
	Groups []uint32
	// Home is the home folder, which may not exist. Shell is the login shell; /bin/sh if the login shell cannot run
	// commands.
	Home, Shell string
}

// ErrNotRoot is wrapped if a process without the privilege would start a process as another user.
var ErrNotRoot = errors.New("only root can start a process as another user")

// Credential returns the credential for starting a process as the user; nil, which changes nothing, for a nil User.
func (u *User) Credential() *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: slices.Clone(u.Groups)}
}

// Become permanently changes all threads of this process to the user: the process should only execute another program
// then. It needs root. After an error the change may be incomplete, and the process must end.
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

// String returns the user for people: "nobody (65534)".
func (u *User) String() string { return fmt.Sprintf("%s (%d)", u.Name, u.UID) }

// foreign are variables that name folders of the user that set them; another user cannot or must not use them.
var foreign = []string{
	"MAIL", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME",
}

// Environ returns env, "NAME=VALUE" each, adapted to the user: HOME, USER, LOGNAME and SHELL with this process's values
// get the user's values, and variables that name folders of this process's user are removed. Variables that differ from
// this process's environment were set on purpose, and are kept. env is not modified. For a nil User, Environ returns
// env itself.
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

// CannotStart adds to an error of starting a program as the user what to do about it, because a permission error names
// neither the user nor the cause. It returns any other error, and any error for a nil User, unchanged.
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
