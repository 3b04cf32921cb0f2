package sandbox

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

func TestTheFilterLooksAtArchitectureAndFlags(t *testing.T) {
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
	const amd64 = unix.AUDIT_ARCH_X86_64
	for name, c := range map[string]struct {
		arch, number uint32
		args         [6]uint32
		want         uint32
	}{
		"a call of a 32-bit program, or by int 0x80": {unix.AUDIT_ARCH_I386, 5, [6]uint32{}, enosys},
		"a call of the x32 interface":                {amd64, x32Bit | unix.SYS_OPEN, [6]uint32{}, enosys},
		"opening to read":                            {amd64, unix.SYS_OPENAT, [6]uint32{2: unix.O_RDONLY | unix.O_CLOEXEC}, allow},
		"opening to write":                           {amd64, unix.SYS_OPENAT, [6]uint32{2: unix.O_WRONLY}, ask},
		"opening to read and truncate":               {amd64, unix.SYS_OPEN, [6]uint32{1: unix.O_TRUNC}, ask},
		"an access mode that Linux has for itself":   {amd64, unix.SYS_OPEN, [6]uint32{1: unix.O_ACCMODE}, ask},
		"a file without a name":                      {amd64, unix.SYS_OPENAT, [6]uint32{2: unix.O_TMPFILE | unix.O_RDWR}, ask},
		"only holding a file":                        {amd64, unix.SYS_OPENAT, [6]uint32{2: unix.O_PATH | unix.O_RDWR}, allow},
		"starting a thread":                          {amd64, unix.SYS_CLONE, [6]uint32{unix.CLONE_VM | unix.CLONE_THREAD}, allow},
		"a user namespace":                           {amd64, unix.SYS_CLONE, [6]uint32{unix.CLONE_NEWUSER}, ask},
		"clone3, whose flags lie in memory":          {amd64, unix.SYS_CLONE3, [6]uint32{}, enosys},
		"openat2, whose flags lie in memory":         {amd64, unix.SYS_OPENAT2, [6]uint32{}, enosys},
		"io_uring":                                   {amd64, unix.SYS_IO_URING_SETUP, [6]uint32{}, enosys},
		"hiding memory":                              {amd64, unix.SYS_PRCTL, [6]uint32{unix.PR_SET_DUMPABLE, 0}, success},
		"showing memory":                             {amd64, unix.SYS_PRCTL, [6]uint32{unix.PR_SET_DUMPABLE, 1}, allow},
		"starting a program":                         {amd64, unix.SYS_EXECVE, [6]uint32{}, ask},
		"reading":                                    {amd64, unix.SYS_READ, [6]uint32{}, allow},
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
