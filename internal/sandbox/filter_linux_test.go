//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

func TestFilter_ChecksArchitectureAndFlags(t *testing.T) {
	vm := newFilterVM(t, Options{})
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
		"reading a key":                              {auditArch, unix.SYS_KEYCTL, [6]uint32{unix.KEYCTL_READ}, enosys},
		"requesting a key":                           {auditArch, unix.SYS_REQUEST_KEY, [6]uint32{}, enosys},
		"hiding memory":                              {auditArch, unix.SYS_PRCTL, [6]uint32{unix.PR_SET_DUMPABLE, 0}, success},
		"showing memory":                             {auditArch, unix.SYS_PRCTL, [6]uint32{unix.PR_SET_DUMPABLE, 1}, allow},
		"starting a program":                         {auditArch, unix.SYS_EXECVE, [6]uint32{}, ask},
		"reading":                                    {auditArch, unix.SYS_READ, [6]uint32{}, allow},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := runFilter(vm, c.arch, c.number, c.args)
			if err != nil || uint32(got) != c.want {
				t.Errorf("got %#x, %v, want %#x", got, err, c.want)
			}
		})
	}
}

func newFilterVM(t *testing.T, o Options) *bpf.VM {
	t.Helper()
	raw, err := filter(o)
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
	return vm
}

// runFilter returns the verdict on a call. The machine of the library reads words as a network has them, the kernel as
// the processor does.
func runFilter(vm *bpf.VM, arch, number uint32, args [6]uint32) (int, error) {
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[offsetNumber:], number)
	binary.BigEndian.PutUint32(data[offsetArch:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[argument(uint32(i)):], a)
	}
	return vm.Run(data)
}

// TestFilter_RefusesRouteOptions: with a source route, a packet to the loopback interface leaves the machine.
func TestFilter_RefusesRouteOptions(t *testing.T) {
	vm := newFilterVM(t, Options{Streams: true})
	for name, c := range map[string]struct{ number, level, option, want uint32 }{
		"IPv4 source route":           {unix.SYS_SETSOCKOPT, unix.IPPROTO_IP, unix.IP_OPTIONS, eperm},
		"IPv6 routing header":         {unix.SYS_SETSOCKOPT, unix.IPPROTO_IPV6, unix.IPV6_RTHDR, eperm},
		"IPv6 routing header, before": {unix.SYS_SETSOCKOPT, unix.IPPROTO_IPV6, unix.IPV6_2292RTHDR, eperm},
		"IPv6 options in a message":   {unix.SYS_SETSOCKOPT, unix.IPPROTO_IPV6, unix.IPV6_2292PKTOPTIONS, eperm},
		"device by name":              {unix.SYS_SETSOCKOPT, unix.SOL_SOCKET, unix.SO_BINDTODEVICE, eperm},
		"device by number":            {unix.SYS_SETSOCKOPT, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, eperm},
		"keep-alive":                  {unix.SYS_SETSOCKOPT, unix.SOL_SOCKET, unix.SO_KEEPALIVE, allow},
		"IPv4 type of service":        {unix.SYS_SETSOCKOPT, unix.IPPROTO_IP, unix.IP_TOS, allow},
		"IPv6 only":                   {unix.SYS_SETSOCKOPT, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, allow},
		"delay":                       {unix.SYS_SETSOCKOPT, unix.IPPROTO_TCP, unix.TCP_NODELAY, allow},
		"reading an option":           {unix.SYS_GETSOCKOPT, unix.IPPROTO_IP, unix.IP_OPTIONS, allow},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := runFilter(vm, auditArch, c.number, [6]uint32{1: c.level, 2: c.option})
			if err != nil || uint32(got) != c.want {
				t.Errorf("got %#x, %v, want %#x", got, err, c.want)
			}
		})
	}
}
