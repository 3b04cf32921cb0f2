package proc_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRoom_LimitsProcessesOfUser(t *testing.T) {
	const most = 20000 // more than a user runs while this does
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &own); err != nil {
		t.Fatal(err)
	}
	if own.Cur < most {
		t.Skipf("at most %d processes may run here", own.Cur)
	}
	out, err := helper("limited", "20000").Output()
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(out)) // Max processes SOFT HARD processes
	if len(fields) < 4 || fields[2] != "19000" || fields[3] != "19000" {
		t.Errorf("%q; want the limit 19000 of 20000", out)
	}
}
