//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

func TestFilter_ChecksArchitectureAndFlags(t *testing.T) {
	raw, err := filter(Options{})
	if err != nil {
		t.Fatal(err)
	}
	program, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the filter cannot be read back")
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		arch, number uint32
		args         [6]uint32
		want         uint32
	}{
		"a call of a 32-bit program, or by int 0x80": {unix.AUDIT_ARCH_I386, 5, [6]uint32{}, enosys},
		"a call of the x32 interface":                {auditArch, noCall | unix.SYS_OPENAT, [6]uint32{}, enosys},
		"opening to read":                            {auditArch, unix.SYS_OPENAT, [6]uint32{2: unix.O_RDONLY | unix.O_CLOEXEC}, allow},
		"opening to write":                           {auditArch, unix.SYS_OPENAT, [6]uint32{2: unix.O_WRONLY}, ask},
		"opening to read and truncate":               {auditArch, unix.SYS_OPENAT, [6]uint32{2: unix.O_TRUNC}, ask},
		"an access mode that Linux has for itself":   {auditArch, unix.SYS_OPENAT, [6]uint32{2: unix.O_ACCMODE}, ask},
		"a file without a name":                      {auditArch, unix.SYS_OPENAT, [6]uint32{2: unix.O_TMPFILE | unix.O_RDWR}, ask},
		"open(2), where it exists":                   {auditArch, sysOpen, [6]uint32{1: unix.O_WRONLY}, map[bool]uint32{true: ask, false: enosys}[sysOpen < noCall]},
		"only holding a file":                        {auditArch, unix.SYS_OPENAT, [6]uint32{2: unix.O_PATH | unix.O_RDWR}, allow},
		"starting a thread":                          {auditArch, unix.SYS_CLONE, [6]uint32{unix.CLONE_VM | unix.CLONE_THREAD}, allow},
		"a user namespace":                           {auditArch, unix.SYS_CLONE, [6]uint32{unix.CLONE_NEWUSER}, ask},
		"clone3, whose flags lie in memory":          {auditArch, unix.SYS_CLONE3, [6]uint32{}, enosys},
		"openat2, whose flags lie in memory":         {auditArch, unix.SYS_OPENAT2, [6]uint32{}, enosys},
		"io_uring":                                   {auditArch, unix.SYS_IO_URING_SETUP, [6]uint32{}, enosys},
		"hiding memory":                              {auditArch, unix.SYS_PRCTL, [6]uint32{unix.PR_SET_DUMPABLE, 0}, success},
		"showing memory":                             {auditArch, unix.SYS_PRCTL, [6]uint32{unix.PR_SET_DUMPABLE, 1}, allow},
		"starting a program":                         {auditArch, unix.SYS_EXECVE, [6]uint32{}, ask},
		"reading":                                    {auditArch, unix.SYS_READ, [6]uint32{}, allow},
	} {
		t.Run(name, func(t *testing.T) {
			// The machine of the library reads words as a network has them, the kernel as the processor does.
			data := make([]byte, 64)
			binary.BigEndian.PutUint32(data[offsetNumber:], c.number)
			binary.BigEndian.PutUint32(data[offsetArch:], c.arch)
			for i, a := range c.args {
				binary.BigEndian.PutUint32(data[argument(uint32(i)):], a)
			}
			got, err := vm.Run(data)
			if err != nil || uint32(got) != c.want {
				t.Errorf("got %#x, %v, want %#x", got, err, c.want)
			}
		})
	}
}
