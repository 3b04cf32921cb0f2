package adversary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/acphost/acphost/internal/sandbox/sandboxed" // has sandbox.Supported try
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// secondRun is set in the run that root starts as an unprivileged user: the folder of all that is run there.
const secondRun = "ACPHOST_ADVERSARY_TOOLS"

// programs are acphost's, as they are installed.
var programs = []string{"acphost", "fsd", "termd", "permd"}

// tools is the folder of the programs under test and of the attacker. Every user can run what is in it.
var tools string

// program is the path of one of them.
func program(name string) string { return filepath.Join(tools, name) }

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	if tools = os.Getenv(secondRun); tools == "" {
		dir, err := gather()
		if err != nil {
			return failed(err)
		}
		defer os.RemoveAll(dir)
		tools = dir
	}
	begun := time.Now()
	status := wire.RunTests(m)
	fmt.Printf("adversary: as uid %d: %s\n", os.Getuid(), time.Since(begun).Round(time.Second/10))
	if os.Getuid() == 0 && os.Getenv(secondRun) == "" {
		status = max(status, runUnprivileged())
	}
	return status
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// gather makes the folder of tools: the programs that ACPHOST_BIN names, or ones that are built for this run, the attacker,
// and this very test.
func gather() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "adversary"); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	packages := []string{"./test/adversary/attacker"}
	if bin := os.Getenv("ACPHOST_BIN"); bin == "" {
		packages = append(packages, "./services/supervisor/cmd/acphost", "./services/fsd", "./services/termd", "./services/permd")
	} else {
		for _, name := range programs {
			if err := install(filepath.Join(bin, name), filepath.Join(dir, name)); err != nil {
				return "", err
			}
		}
	}
	if err := wire.Build("../..", dir, packages...); err != nil {
		return "", err
	}
	if err := install("/proc/self/exe", filepath.Join(dir, "suite")); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

// install copies a program so that every user can run it.
func install(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Chmod(0o755), target.Close())
}

// runUnprivileged runs the suite once more, as a user that is nobody else.
func runUnprivileged() int {
	uid, err := freeUID()
	if err != nil {
		return failed(err)
	}
	home, err := os.MkdirTemp("", "adversary")
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(home)
	if err := os.Chown(home, uid, uid); err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout())
	defer cancel()
	cmd := exec.CommandContext(ctx, program("suite"), testFlags(os.Args[1:])...)
	cmd.Dir = home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "LANG=C.UTF-8", secondRun + "=" + tools}
	if small := filepath.Join(home, "small"); mountSmall(small, uid) == nil {
		defer func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) }()
		cmd.Env = append(cmd.Env, smallRoom+"="+small)
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	fmt.Printf("adversary: once more, as uid %d\n", uid)
	if err := cmd.Run(); err != nil {
		return failed(fmt.Errorf("as uid %d: %w", uid, err))
	}
	return 0
}

// freeUID is the number of a user that there is not, and that runs nothing.
func freeUID() (int, error) {
	taken := map[uint32]bool{}
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		if info, err := os.Stat(entry); err == nil {
			taken[info.Sys().(*syscall.Stat_t).Uid] = true
		}
	}
	for uid := 61184; uid < 61284; uid++ {
		if _, err := user.LookupId(strconv.Itoa(uid)); err != nil && !taken[uint32(uid)] {
			return uid, nil
		}
	}
	return 0, errors.New("no number of a user is free")
}

// testFlags are the flags of "go test" that a second run shares: those that write no files.
func testFlags(args []string) []string {
	var flags []string
	for _, arg := range args {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch name {
		case "test.testlogfile", "test.coverprofile", "test.gocoverdir", "test.outputdir", "test.cpuprofile", "test.memprofile", "test.trace":
		default:
			flags = append(flags, arg)
		}
	}
	return flags
}
