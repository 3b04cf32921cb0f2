package proc_test

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/users"
)

func TestLookup_ByNameAndNumber(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes as another user")
	}
	byName, err := users.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	byNumber, err := users.Lookup("65534")
	if err != nil {
		t.Skipf("the user nobody of this system is not 65534: %v", err)
	}
	if byName.UID != byNumber.UID || byName.Name != "nobody" || byName.UID == 0 || byName.GID == 0 {
		t.Errorf("by name %+v, by number %+v", byName, byNumber)
	}
	if slices.Contains(byName.Groups, 0) {
		t.Errorf("the user nobody is in root's group: %v", byName.Groups)
	}
	if byName.Shell != "/bin/sh" {
		t.Errorf("shell %q, want one that runs commands", byName.Shell)
	}
}

func TestLookup_OwnUserNeedsNoChange(t *testing.T) {
	u, err := users.Lookup(strconv.Itoa(os.Geteuid()))
	if u != nil || err != nil && os.Geteuid() == 0 {
		t.Errorf("got %v, %v", u, err)
	}
	if got := u.Environ([]string{"HOME=/x"}); !slices.Equal(got, []string{"HOME=/x"}) || u.Credential() != nil {
		t.Errorf("no user changes %v", got)
	}
}

func TestLookup_ErrorNamesMissingUser(t *testing.T) {
	_, err := users.Lookup("no-such-user-here")
	if err == nil || !strings.Contains(err.Error(), "no-such-user-here") {
		t.Errorf("got %v", err)
	}
}

func TestLookup_OtherUserRequiresRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may")
	}
	if _, err := users.Lookup("root"); err == nil || !strings.Contains(err.Error(), "only root") {
		t.Errorf("got %v", err)
	}
}

func TestEnviron_FitsUser(t *testing.T) {
	for name, value := range map[string]string{"HOME": "/root", "SHELL": "/bin/bash", "XDG_CONFIG_HOME": "/root/c", "MAIL": "/var/mail/root"} {
		t.Setenv(name, value)
	}
	u := &proc.User{Name: "ann", UID: 7, Home: "/home/ann", Shell: "/bin/zsh"}
	for _, c := range []struct{ env, want []string }{
		{
			[]string{"PATH=/bin", "HOME=/root", "SHELL=/bin/bash", "XDG_CONFIG_HOME=/root/c", "HOMEPAGE=x", "MAIL=/var/mail/root"},
			[]string{"PATH=/bin", "HOME=/home/ann", "SHELL=/bin/zsh", "HOMEPAGE=x", "LOGNAME=ann", "USER=ann"},
		},
		{ // on purpose
			[]string{"HOME=/work", "XDG_CONFIG_HOME=/work/c"},
			[]string{"HOME=/work", "XDG_CONFIG_HOME=/work/c", "LOGNAME=ann", "SHELL=/bin/zsh", "USER=ann"},
		},
	} {
		before := slices.Clone(c.env)
		if got := u.Environ(c.env); !slices.Equal(got, c.want) || !slices.Equal(c.env, before) {
			t.Errorf("of %q arrived %q, want %q", before, got, c.want)
		}
	}
}

func TestCannotStart_NamesForbiddenProgram(t *testing.T) {
	u := &proc.User{Name: "ann", UID: 7}
	err := u.CannotStart("/root/bin/termd", &os.PathError{Op: "fork/exec", Path: "/root/bin/termd", Err: syscall.EACCES})
	for _, want := range []string{"ann (7)", "/root/bin/termd", "install it"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if err := u.CannotStart("/x", syscall.ENOENT); !errors.Is(err, syscall.ENOENT) || err.Error() != syscall.ENOENT.Error() {
		t.Errorf("another error became %v", err)
	}
}
