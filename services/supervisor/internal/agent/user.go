package agent

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// credentialOf finds a user by name or number. nil: nobody else than who runs this process.
func credentialOf(name string) (*credential, error) {
	if name == "" {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		byID, idErr := user.LookupId(name)
		if idErr != nil {
			return nil, fmt.Errorf("user %q: %w", name, err)
		}
		u = byID
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %q: uid: %w", name, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %q: gid: %w", name, err)
	}
	if int(uid) == os.Geteuid() {
		return nil, nil
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("user %q: only root can start a process as another user; this one runs as %d", name, os.Geteuid())
	}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("user %q: groups: %w", name, err)
	}
	c := &credential{UID: uint32(uid), GID: uint32(gid)}
	for _, id := range ids {
		group, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user %q: groups: %w", name, err)
		}
		c.Groups = append(c.Groups, uint32(group))
	}
	return c, nil
}
