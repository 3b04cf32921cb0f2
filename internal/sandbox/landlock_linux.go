//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

// A process inside may make Landlock domains. The kernel holds it to them, but not the sandbox, which carries calls out
// for it. So for each domain the sandbox has threads that have entered the same rulesets, and it carries calls out
// there.
//
//   - A ruleset is the kernel's object, and the sandbox and the process share it: what the rules say is written down
//     nowhere else.
//   - Rules are added by the sandbox alone. From the first domain that is made of a ruleset on there are no more, so
//     that a thread which enters it later is held to the same.
//   - Which domain a process is in, a limit says that nothing uses, and that the sandbox sets: RLIMIT_LOCKS. Processes
//     inherit it where they inherit the domain, and the filter keeps them from setting it.
//
// A limit is the process's, and a domain the thread's. What the sandbox carries out for any thread of a process is held
// to the domains of them all: it can be less than Landlock would allow, and never more.

// Bounds of what processes inside may have of Landlock.
const (
	// mostRulesets is how many rulesets are known that no domain is made of. The oldest one is forgotten first.
	mostRulesets = 64
	// mostRules bounds a ruleset.
	mostRules = 1024
	// mostLayers is how many domains may be in each other. The kernel has 16, and the walls around the command take
	// some.
	mostLayers = 10
	// mostDomains bounds those in which a process lives.
	mostDomains = 128
	// mostIdle is how many threads wait for calls in a domain, and for how long.
	mostIdle = 16
	idleTime = 5 * time.Second
)

// What the sandbox knows of Landlock: version 7 (Linux 6.15). What a later kernel has besides is refused, as an older
// kernel does.
const (
	landlockVersion = 7
	landlockFiles   = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV<<1 - 1
	landlockNet     = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	landlockScopes  = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	// landlockRulePort is LANDLOCK_RULE_NET_PORT; x/sys lacks it.
	landlockRulePort = 2
	landlockLogs     = unix.LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF | unix.LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON |
		unix.LANDLOCK_RESTRICT_SELF_LOG_SUBDOMAINS_OFF
)

// rlimitLocks is RLIMIT_LOCKS, which the kernel has done nothing with since Linux 2.4.25; x/sys lacks it.
const rlimitLocks = 10

// firstDomain is the limit of processes in the first domain. A limit can only be lowered, so the next domain has the
// next lower number.
const firstDomain = 1 << 62

// domains are the Landlock domains that processes inside have made.
type domains struct {
	made atomic.Bool // there was one
	idle atomic.Int32

	mu   sync.Mutex
	open []*ruleset // of which no domain is made yet, or still; the newest one last
	all  map[uint64]*domain
	next uint64
}

// ruleset is one that a process inside has made.
type ruleset struct {
	fd    int
	rules int
	// names: its domains reach no sockets outside of them by names that are no paths.
	names bool
	// uses is how often it is in domains.all. From the first one on no rules are added.
	sealed bool
	uses   int
	listed bool // in domains.open
}

// domain is one that a process inside has entered, on top of the one it was in.
type domain struct {
	*domains
	tag    uint64
	layers []*ruleset // the first one first
	jobs   chan job
	// entering is how many processes are about to carry the tag.
	entering int
}

// job is work for a thread in a domain.
type job struct {
	work   func() error
	result chan<- error
}

// errUntold says that a process's domain is not known.
var errUntold = unix.EACCES

// domainOf is the domain that a process is in; nil: none. The process has to be known to live.
func (s *server) domainOf(tgid int) (*domain, error) {
	if !s.domains.made.Load() {
		return nil, nil
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(tgid, rlimitLocks, nil, &limit); err != nil {
		return nil, errUntold
	}
	if limit.Max > firstDomain {
		return nil, nil
	}
	s.domains.mu.Lock()
	defer s.domains.mu.Unlock()
	d, ok := s.domains.all[limit.Max]
	if !ok {
		return nil, errUntold
	}
	return d, nil
}

// duplicate is a file that the calling thread has open.
func (c *call) duplicate(fd int) (int, error) {
	const pidfdThread = unix.O_EXCL // PIDFD_THREAD: a thread can have open files of its own
	pidfd, err := unix.PidfdOpen(int(c.pid), pidfdThread)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pidfd)
	own, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err == nil && !c.valid() {
		unix.Close(own)
		return -1, unix.ESRCH
	}
	return own, err
}

// canTell reports whether processes inside can be told apart by their domains.
func canTell() bool {
	var limit unix.Rlimit
	return unix.Prlimit(0, rlimitLocks, nil, &limit) == nil && limit.Max == math.MaxUint64
}

// landlock carries out landlock_create_ruleset, landlock_add_rule and landlock_restrict_self.
func (c *call) landlock() error {
	if !canTell() {
		return c.refuse("a Landlock domain", unix.EOPNOTSUPP) // as a kernel answers that does not have Landlock enabled
	}
	switch c.data.number {
	case unix.SYS_LANDLOCK_CREATE_RULESET:
		return c.createRuleset(c.data.args[0], c.data.args[1], uint32(c.data.args[2]))
	case unix.SYS_LANDLOCK_ADD_RULE:
		return c.addRule(c.arg(0), c.arg(1), c.data.args[2], uint32(c.data.args[3]))
	}
	return c.restrict(c.arg(0), uint32(c.data.args[1]))
}

func landlockCall(number uintptr, args ...uintptr) (int, error) {
	var a [4]uintptr
	copy(a[:], args)
	n, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// createRuleset makes a ruleset and hands it over, or answers what Landlock can do.
func (c *call) createRuleset(address, size uint64, flags uint32) error {
	if flags != 0 {
		n, err := landlockCall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(address), uintptr(size), uintptr(flags))
		if address != 0 || size != 0 || flags != unix.LANDLOCK_CREATE_RULESET_VERSION && flags != unix.LANDLOCK_CREATE_RULESET_ERRATA {
			return unix.EINVAL
		}
		if err != nil {
			return err
		}
		if flags == unix.LANDLOCK_CREATE_RULESET_VERSION {
			n = min(n, landlockVersion)
		}
		c.result(int64(n))
		return errAnswered
	}
	const word = 8
	switch {
	case size < word:
		return unix.EINVAL
	case size > page:
		return unix.E2BIG
	}
	raw := make([]byte, size, page)
	if err := c.readAll(address, raw); err != nil {
		return err
	}
	var attr struct{ files, net, scopes uint64 } // struct landlock_ruleset_attr
	const known = uint64(unsafe.Sizeof(attr))
	for _, b := range raw[min(known, size):] {
		if b != 0 {
			return unix.E2BIG // of a later version
		}
	}
	raw = raw[:known]
	attr.files, attr.net = binary.NativeEndian.Uint64(raw), binary.NativeEndian.Uint64(raw[word:])
	attr.scopes = binary.NativeEndian.Uint64(raw[2*word:])
	if attr.files&^landlockFiles != 0 || attr.net&^landlockNet != 0 || attr.scopes&^landlockScopes != 0 {
		return unix.EINVAL
	}
	fd, err := landlockCall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), uintptr(known), 0)
	if err != nil {
		return err
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		unix.Close(fd)
		return err
	}
	c.domains.list(&ruleset{fd: own, names: attr.scopes&unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET != 0})
	return c.hand(fd, unix.O_CLOEXEC)
}

// list makes a ruleset known, and forgets the oldest one of too many.
func (d *domains) list(r *ruleset) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.listed = true
	d.open = append(d.open, r)
	if len(d.open) > mostRulesets {
		oldest := d.open[0]
		d.open = append(d.open[:0], d.open[1:]...)
		oldest.listed = false
		oldest.release()
	}
}

// release closes a ruleset that is neither known nor in a domain any more. domains.mu is locked.
func (r *ruleset) release() {
	if !r.listed && r.uses == 0 {
		unix.Close(r.fd)
	}
}

// find is the ruleset that an open file is; nil: it is not known. d.mu is locked.
func (d *domains) find(fd int) *ruleset {
	same := func(r *ruleset) bool {
		n, err := unix.FcntlInt(uintptr(r.fd), unix.F_DUPFD_QUERY, fd)
		return err == nil && n == 1
	}
	for _, r := range d.open {
		if same(r) {
			return r
		}
	}
	for _, in := range d.all {
		for _, r := range in.layers {
			if same(r) {
				return r
			}
		}
	}
	return nil
}

// addRule adds a rule to a ruleset of the process's. A folder or file that the rule is about is a duplicate here.
func (c *call) addRule(rulesetFD, kind int, address uint64, flags uint32) error {
	if flags != 0 {
		return unix.EINVAL
	}
	var rule [16]byte
	var path *unix.LandlockPathBeneathAttr
	switch kind {
	case unix.LANDLOCK_RULE_PATH_BENEATH:
		const packed = 12
		if err := c.readAll(address, rule[:packed]); err != nil {
			return err
		}
		path = &unix.LandlockPathBeneathAttr{Allowed_access: binary.NativeEndian.Uint64(rule[:]), Parent_fd: -1}
	case landlockRulePort:
		if err := c.readAll(address, rule[:]); err != nil {
			return err
		}
	default:
		return unix.EINVAL
	}
	fd, err := c.duplicate(rulesetFD)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	of := unsafe.Pointer(&rule)
	if path != nil {
		parent, err := c.duplicate(int(int32(binary.NativeEndian.Uint32(rule[8:]))))
		if err != nil {
			return err
		}
		defer unix.Close(parent)
		path.Parent_fd = int32(parent)
		of = unsafe.Pointer(path)
	}
	c.domains.mu.Lock()
	defer c.domains.mu.Unlock()
	r := c.domains.find(fd)
	switch {
	case r == nil: // no ruleset, or one that was forgotten
		return unix.EBADFD
	case r.sealed:
		return unix.EPERM
	case r.rules >= mostRules:
		return unix.ENOMEM
	}
	if _, err = landlockCall(unix.SYS_LANDLOCK_ADD_RULE, uintptr(fd), uintptr(kind), uintptr(of), 0); err == nil {
		r.rules++
	}
	return err
}

// restrict has the kernel put the calling thread into a domain, after the sandbox has a thread in one of the same
// rulesets, and the process carries its number. If the kernel refuses, the process is held to it all the same by the
// sandbox.
func (c *call) restrict(rulesetFD int, flags uint32) error {
	if flags&^landlockLogs != 0 {
		return unix.EINVAL
	}
	if rulesetFD == -1 && flags == unix.LANDLOCK_RESTRICT_SELF_LOG_SUBDOMAINS_OFF {
		c.proceed() // there is no domain
		return errAnswered
	}
	fd, err := c.duplicate(rulesetFD)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	d, err := c.domains.enter(c.domain, fd)
	if err != nil {
		return err
	}
	defer d.entered()
	if err := d.do(func() error { return nil }); err != nil {
		return err
	}
	if !c.valid() {
		return unix.ESRCH
	}
	limit := unix.Rlimit{Cur: d.tag, Max: d.tag}
	if err := unix.Prlimit(c.tgid, rlimitLocks, &limit, nil); err != nil {
		return unix.ENOMEM
	}
	c.proceed()
	return errAnswered
}

// enter is the domain of a ruleset within another domain, or within none. It is the outer one itself if that has the
// ruleset already: each thread of a process can enter it. Call entered once a process carries its tag.
func (d *domains) enter(outer *domain, fd int) (*domain, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.find(fd)
	if r == nil {
		return nil, unix.EBADFD
	}
	var layers []*ruleset
	if outer != nil {
		layers = outer.layers
	}
	if slices.Contains(layers, r) {
		outer.entering++
		return outer, nil
	}
	layers = append(slices.Clip(layers), r)
	for _, in := range d.all {
		if slices.Equal(in.layers, layers) {
			in.entering++
			return in, nil
		}
	}
	if len(layers) > mostLayers {
		return nil, unix.E2BIG
	}
	if len(d.all) >= mostDomains {
		d.sweep()
	}
	if len(d.all) >= mostDomains {
		return nil, unix.ENOMEM
	}
	if d.all == nil {
		d.all, d.next = map[uint64]*domain{}, firstDomain
	}
	in := &domain{domains: d, tag: d.next, layers: layers, jobs: make(chan job), entering: 1}
	d.next--
	for _, l := range layers {
		l.sealed = true
		l.uses++
	}
	d.all[in.tag] = in
	d.made.Store(true)
	return in, nil
}

func (d *domain) entered() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entering--
}

// sweep forgets domains in which no process lives. d.mu is locked. A process that ends while it is looked at may have
// left children: they are looked for again. Should one be missed, the sandbox refuses it what it would carry out.
func (d *domains) sweep() {
	live := map[uint64]bool{}
	const rounds = 5
	for range rounds {
		pids, err := proc.Descendants(os.Getpid())
		if err != nil {
			return
		}
		all := true
		for _, pid := range pids {
			var limit unix.Rlimit
			if unix.Prlimit(pid, rlimitLocks, nil, &limit) != nil {
				all = false
			}
			live[limit.Max] = true
		}
		if !all {
			continue
		}
		for tag, in := range d.all {
			if live[tag] || in.entering > 0 {
				continue
			}
			delete(d.all, tag)
			for _, l := range in.layers {
				l.uses--
				l.release()
			}
		}
		return
	}
}

// names reports whether processes in the domain reach no sockets outside of it by names that are no paths. Which are
// inside, the sandbox cannot say.
func (d *domain) names() bool {
	return d != nil && slices.ContainsFunc(d.layers, func(r *ruleset) bool { return r.names })
}

// under does work as the process's domain allows it: here, or on a thread in the domain.
func (c *call) under(work func() error) error {
	if c.domain == nil {
		return work()
	}
	return c.domain.do(work)
}

// do does work on a thread in the domain.
func (d *domain) do(work func() error) error {
	result := make(chan error, 1)
	j := job{work, result}
	select {
	case d.jobs <- j:
	default:
		go d.serve(j)
	}
	return <-result
}

// serve does jobs on a thread of its own in the domain, until there is none for a while. The thread then ends.
func (d *domain) serve(j job) {
	if err := errors.Join(ownThread(), d.join()); err != nil {
		j.result <- err
		return
	}
	for {
		j.result <- j.work()
		if d.idle.Add(1) > mostIdle {
			d.idle.Add(-1)
			return
		}
		var ok bool
		select {
		case j = <-d.jobs:
			ok = true
		case <-time.After(idleTime):
		}
		d.idle.Add(-1)
		if !ok {
			return
		}
	}
}

// join puts the calling thread, which is its goroutine's alone and ends with it, into the domain.
func (d *domain) join() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all[d.tag] != d {
		return errUntold
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	for _, l := range d.layers {
		if _, err := landlockCall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(l.fd), 0); err != nil {
			return err
		}
	}
	return nil
}
