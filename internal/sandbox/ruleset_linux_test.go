//go:build amd64 || arm64

package sandbox

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// askLandlock tells what it is answered, and what it achieves with the calls of Landlock themselves.
func askLandlock(free, closed string) int {
	runtime.LockOSThread()
	say := func(name string, err error) { fmt.Printf("%s: %v\n", name, err) }
	version, err := landlockCall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	fmt.Println("version:", version, err)
	_, err = landlockCall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1<<10)
	say("an unknown question", err)
	for name, attr := range map[string][4]uint64{
		"a right to files of a later version": {landlockFiles + 1}, "one to the network": {0, 1 << 60}, "a scope": {0, 0, 4}, "a field": {1, 0, 0, 1}, "nothing": {},
	} {
		_, err := landlockCall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
		defer say(name, err)
	}
	_, err = landlockCall(unix.SYS_LANDLOCK_CREATE_RULESET, cstring("short"), 4, 0)
	say("a short size", err)
	ruleset, err := newRuleset(everyChange, 0, 0)
	say("(a ruleset)", err)
	say("a rule for what it does not handle", permit(ruleset, free, unix.LANDLOCK_ACCESS_FS_READ_FILE))
	_, err = landlockCall(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), 9, cstring("xxxxxxxxxxxxxxxxxx"), 0)
	say("an unknown kind of rule", err)
	_, err = landlockCall(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), 1, cstring("xxxxxxxxxxxxxxxxxx"), 8)
	say("an unknown flag of a rule", err)
	say("a rule in a file that is no ruleset", permit(0, free, everyChange))
	say("(a rule)", permit(ruleset, free, everyChange))
	_, err = landlockCall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 1<<20)
	say("an unknown flag of a domain", err)
	_, err = landlockCall(unix.SYS_LANDLOCK_RESTRICT_SELF, 0, 0)
	say("a domain of a file that is no ruleset", err)
	say("(a domain)", restrictSelf(ruleset))
	say("a rule after it", permit(ruleset, closed, everyChange))
	_, err = os.Create(filepath.Join(closed, "new"))
	say("what it allows", unwrap(err))
	var limit unix.Rlimit
	say("(its limit)", unix.Prlimit(0, rlimitLocks, nil, &limit))
	highest := unix.Rlimit{Cur: limit.Cur, Max: limit.Max}
	for _, n := range []uint64{limit.Max - 1, limit.Max, firstDomain + 1, 1<<64 - 1} {
		highest.Cur, highest.Max = n, n
		say("its limit", unix.Prlimit(0, rlimitLocks, &highest, nil))
		_, _, errno := unix.Syscall6(unix.SYS_PRLIMIT64, uintptr(os.Getpid()), 1<<32|rlimitLocks, uintptr(unsafe.Pointer(&highest)), 0, 0, 0)
		say("its limit, with more bits", errno)
		_, _, errno = unix.Syscall(unix.SYS_SETRLIMIT, rlimitLocks, uintptr(unsafe.Pointer(&highest)), 0)
		say("its limit by setrlimit", errno)
	}
	say("(another limit)", unix.Prlimit(0, unix.RLIMIT_CORE, &unix.Rlimit{}, nil))
	return 0
}

func unwrap(err error) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno
	}
	return err
}

func TestLandlock_ReportsSupportedFeatures(t *testing.T) {
	y, free, closed := fields(t)
	version, err := landlockCall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if err != nil {
		t.Fatal(err)
	}
	got := run(t, y.attack(t, "asklandlock", free, closed))
	for _, want := range []string{
		fmt.Sprintf("version: %d <nil>", min(version, landlockVersion)), "an unknown question: invalid argument", "a right to files of a later version: invalid argument",
		"one to the network: invalid argument", "a scope: invalid argument", "a field: argument list too long", "nothing: no message of desired type",
		"a short size: invalid argument", "(a ruleset): <nil>", "a rule for what it does not handle: invalid argument", "an unknown kind of rule: invalid argument",
		"an unknown flag of a rule: invalid argument", "a rule in a file that is no ruleset: file descriptor in bad state", "(a rule): <nil>",
		"an unknown flag of a domain: invalid argument", "a domain of a file that is no ruleset: file descriptor in bad state", "(a domain): <nil>",
		"a rule after it: operation not permitted", "what it allows: permission denied", "(its limit): <nil>", "(another limit): <nil>",
	} {
		if !strings.Contains("\n"+got+"\n", "\n"+want+"\n") {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
	if n := strings.Count(got, "\nits limit"); n != 12 || strings.Count(got, "its limit: operation not permitted")+
		strings.Count(got, "its limit, with more bits: operation not permitted")+strings.Count(got, "its limit by setrlimit: operation not permitted") != n {
		t.Errorf("got\n%s\nwant each change of the limit refused", got)
	}
}

// manyDomains makes many rulesets, and many domains one after the other, and then as many as it can at once.
func manyDomains(free string) int {
	runtime.LockOSThread()
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 4096, Max: 4096})
	var made int
	for range 16 * maxRulesets {
		if fd, err := newRuleset(everyChange, 0, 0); err == nil {
			made++
			unix.Close(fd)
		}
	}
	fmt.Println("rulesets:", made)
	first, _ := newRuleset(everyChange, 0, 0)
	for range maxRulesets {
		fd, _ := newRuleset(everyChange, 0, 0)
		defer unix.Close(fd)
	}
	fmt.Println("a rule in one that was forgotten:", permit(first, free, everyChange))
	rules, _ := newRuleset(everyChange, 0, 0)
	var err error
	var n int
	for n = 0; err == nil; n++ {
		err = permit(rules, free, everyChange)
	}
	fmt.Println("rules:", n-1, err)
	self, _ := os.Executable()
	var failed int
	for range maxDomains + 8 { // more than there may be at once
		cmd := exec.Command(self, "one", free, free)
		if out, err := cmd.Output(); err != nil || string(out) != "<nil>\n" {
			failed++
			fmt.Println(err, string(out))
		}
	}
	fmt.Println("domains one after the other that failed:", failed)
	if os.Getenv(shortVar) != "" {
		return 0
	}
	var stay []*exec.Cmd
	count := map[string]int{}
	for range maxDomains + 8 {
		cmd := exec.Command(self, "stay", free, free)
		in, err1 := cmd.StdinPipe()
		out, err2 := cmd.StdoutPipe()
		if errors.Join(err1, err2, cmd.Start()) != nil {
			return 1
		}
		line, _ := bufio.NewReader(out).ReadString('\n')
		count[line]++
		defer in.Close()
		stay = append(stay, cmd)
	}
	fmt.Println("domains at once:", count["<nil>\n"], count["cannot allocate memory\n"])
	runtime.KeepAlive(stay)
	return 0
}

func TestLandlock_LimitsRulesetsAndDomains(t *testing.T) {
	y, free, _ := fields(t)
	got := run(t, y.attack(t, "manydomains", free))
	want := fmt.Sprintf("rulesets: %d", 16*maxRulesets) + "\na rule in one that was forgotten: file descriptor in bad state\n" +
		fmt.Sprintf("rules: %d cannot allocate memory\ndomains one after the other that failed: 0", maxRules)
	if !testing.Short() {
		want += fmt.Sprintf("\ndomains at once: %d 8", maxDomains)
	}
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// ruleRace adds a rule while a thread enters a domain of the ruleset, and prints each time that the sandbox carries out
// what the domain does not allow. What is read, the kernel opens; what is written, the sandbox.
func ruleRace(closed string) int {
	const both = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE
	file := filepath.Join(closed, "file")
	self, _ := os.Executable()
	if os.Getenv("RACING") == "" {
		var wider int
		for range tries(200) {
			cmd := exec.Command(self, closed)
			cmd.Env = append(os.Environ(), "RACING=1")
			out, err := cmd.CombinedOutput()
			switch {
			case err != nil:
				fmt.Println(err, string(out))
			case string(out) == "wider\n":
				wider++
			}
		}
		fmt.Println("wider:", wider)
		return 0
	}
	runtime.LockOSThread()
	ruleset, err := newRuleset(both, 0, 0)
	if err != nil {
		return 1
	}
	ready, added := make(chan struct{}), make(chan struct{})
	go func() {
		close(ready)
		_ = permit(ruleset, closed, both)
		close(added)
	}()
	<-ready
	if err := restrictSelf(ruleset); err != nil {
		fmt.Println(err)
		return 1
	}
	<-added
	_, read := unix.Open(file, unix.O_RDONLY, 0)
	_, write := unix.Open(file, unix.O_WRONLY, 0)
	switch {
	case read != nil && write == nil:
		fmt.Println("wider")
	case read != nil:
		fmt.Println("closed")
	default:
		fmt.Println("open")
	}
	return 0
}

func TestLandlock_RuleAddedMeanwhileWidensNothing(t *testing.T) {
	y, _, closed := fields(t)
	if got := run(t, y.attack(t, "rulerace", closed)); got != "wider: 0" {
		t.Error(got)
	}
}
