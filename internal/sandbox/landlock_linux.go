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

// A confined process may make Landlock domains. The kernel applies a domain to the process, but not to the sandbox, which carries out
// calls for it. So for each domain the sandbox has threads that have entered the same rulesets, and it carries the calls out on them.
//
//   - A ruleset is an object of the kernel that the sandbox and the process share. Its rules are stored nowhere else.
//   - Only the sandbox adds rules. Once a domain is made of a ruleset, no rules are added to it, so that a thread which
//     enters it later has the same restrictions.
//   - The resource limit RLIMIT_LOCKS, which the kernel does not use, stores the domain of a process. The sandbox sets it.
//     Processes inherit it with the domain, and the filter keeps them from setting it.
//
// A limit belongs to a process, and a domain to a thread. Calls that the sandbox carries out for any thread of a process are
// restricted by the domains of all its threads: this can allow less than Landlock would, but never more.

// Limits of the Landlock objects of confined processes.
const (
	// maxRulesets limits the remembered rulesets without a domain. The oldest is evicted first.
	maxRulesets = 64
	// maxRules limits the rules of a ruleset.
	maxRules = 1024
	// maxLayers limits how deep domains are nested. The kernel's limit is 16, and the confinement of the command needs some.
	maxLayers = 10
	// maxDomains limits the domains that have a process.
	maxDomains = 128
	// maxIdle limits the idle threads of all domains. An idle thread ends after idleTime.
	maxIdle  = 16
	idleTime = 5 * time.Second
)

// The features of Landlock that the sandbox supports: those of version 7 (Linux 6.15). It rejects features of later kernels, as an
// older kernel does.
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

// rlimitLocks is RLIMIT_LOCKS, which x/sys lacks. The kernel has not used it since Linux 2.4.25.
const rlimitLocks = 10

// firstDomain is the limit that marks processes in the first domain. A limit can only be lowered, so each further domain has the next
// lower number.
const firstDomain = 1 << 62

// domains holds the Landlock domains that confined processes have made.
type domains struct {
	made atomic.Bool // a domain was made
	idle atomic.Int32

	mu   sync.Mutex
	open []*ruleset // rulesets that may not have a domain; the newest last
	all  map[uint64]*domain
	next uint64
}

// ruleset is a ruleset that a confined process has made.
type ruleset struct {
	fd    int
	rules int
	// scoped: its domains cannot connect to abstract unix sockets outside of them.
	scoped bool
	// uses is how often the ruleset is in domains.all. sealed is set with the first use: no rules are added from then on.
	sealed bool
	uses   int
	listed bool // in domains.open
}

// domain is a domain that a confined process has entered, on top of its previous one.
type domain struct {
	*domains
	tag    uint64
	layers []*ruleset // the outermost first
	jobs   chan job
	// entering is the number of processes that are about to get the tag.
	entering int
}

// job is work for a thread in a domain.
type job struct {
	work   func() error
	result chan<- error
}

// errUnknownDomain says that a process's domain is unknown.
var errUnknownDomain = unix.EACCES

// domainOf returns the domain of a process; nil: none. The caller must know that the process is alive.
func (s *server) domainOf(tgid int) (*domain, error) {
	if !s.domains.made.Load() {
		return nil, nil
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(tgid, rlimitLocks, nil, &limit); err != nil {
		return nil, errUnknownDomain
	}
	if limit.Max > firstDomain {
		return nil, nil
	}
	s.domains.mu.Lock()
	defer s.domains.mu.Unlock()
	d, ok := s.domains.all[limit.Max]
	if !ok {
		return nil, errUnknownDomain
	}
	return d, nil
}

// duplicate returns a duplicate of a file that the calling thread has open.
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

// canMarkProcesses reports whether the sandbox can mark processes with their domains.
func canMarkProcesses() bool {
	var limit unix.Rlimit
	return unix.Prlimit(0, rlimitLocks, nil, &limit) == nil && limit.Max == math.MaxUint64
}

// landlock carries out landlock_create_ruleset, landlock_add_rule and landlock_restrict_self.
func (c *call) landlock() error {
	if !canMarkProcesses() {
		return c.refuse("a Landlock domain", unix.EOPNOTSUPP) // as a kernel without Landlock answers
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

// createRuleset makes a ruleset and hands it to the process, or answers a query for the version of Landlock.
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
			return unix.E2BIG // a field of a later version
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
	c.domains.list(&ruleset{fd: own, scoped: attr.scopes&unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET != 0})
	return c.hand(fd, unix.O_CLOEXEC)
}

// list registers a ruleset, and evicts the oldest if there are too many.
func (d *domains) list(r *ruleset) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.listed = true
	d.open = append(d.open, r)
	if len(d.open) > maxRulesets {
		oldest := d.open[0]
		d.open = append(d.open[:0], d.open[1:]...)
		oldest.listed = false
		oldest.release()
	}
}

// release closes a ruleset that is neither listed nor used by a domain. The caller holds domains.mu.
func (r *ruleset) release() {
	if !r.listed && r.uses == 0 {
		unix.Close(r.fd)
	}
}

// find returns the ruleset of an open file; nil: it is unknown. The caller holds d.mu.
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

// addRule adds a rule to a ruleset of the process. It duplicates the file or folder that the rule names.
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
	case r == nil: // no ruleset, or an evicted one
		return unix.EBADFD
	case r.sealed:
		return unix.EPERM
	case r.rules >= maxRules:
		return unix.ENOMEM
	}
	if _, err = landlockCall(unix.SYS_LANDLOCK_ADD_RULE, uintptr(fd), uintptr(kind), uintptr(of), 0); err == nil {
		r.rules++
	}
	return err
}

// restrict lets the kernel put the calling thread into a domain, after the sandbox has a thread in a domain of the same rulesets and
// has marked the process. If the kernel then rejects the call, the sandbox applies the domain all the same.
func (c *call) restrict(rulesetFD int, flags uint32) error {
	if flags&^landlockLogs != 0 {
		return unix.EINVAL
	}
	if rulesetFD == -1 && flags == unix.LANDLOCK_RESTRICT_SELF_LOG_SUBDOMAINS_OFF {
		c.proceed() // no domain is made
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
	if err := unix.Prlimit(c.tgid(), rlimitLocks, &limit, nil); err != nil {
		return unix.ENOMEM
	}
	c.proceed()
	return errAnswered
}

// enter returns the domain of a ruleset within the outer domain, which may be nil. It returns outer if that contains the ruleset
// already: each thread of a process can enter it. The caller must call entered once the process has the tag.
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
	if len(layers) > maxLayers {
		return nil, unix.E2BIG
	}
	if len(d.all) >= maxDomains {
		d.sweep()
	}
	if len(d.all) >= maxDomains {
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

// sweep removes domains without processes. The caller holds d.mu. A process that ends during the search may have left children, so
// the search is repeated. If it missed a process, the sandbox would reject the calls that it carries out for it.
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

// scopesAbstractSockets reports whether processes in the domain cannot connect to abstract unix sockets outside of it. The sandbox
// cannot tell which sockets are inside.
func (d *domain) scopesAbstractSockets() bool {
	return d != nil && slices.ContainsFunc(d.layers, func(r *ruleset) bool { return r.scoped })
}

// runInDomain runs work with the restrictions of the process's domain: on this thread, or on a thread in the domain.
func (c *call) runInDomain(work func() error) error {
	if c.domain == nil {
		return work()
	}
	return c.domain.do(work)
}

// do runs work on a thread in the domain.
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

// serve runs jobs on its own thread in the domain. The thread ends after it was idle for idleTime.
func (d *domain) serve(j job) {
	if err := errors.Join(ownThread(), d.join()); err != nil {
		j.result <- err
		return
	}
	for {
		j.result <- j.work()
		if d.idle.Add(1) > maxIdle {
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

// join puts the calling thread into the domain. The goroutine must be locked to the thread, which ends with it.
func (d *domain) join() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all[d.tag] != d {
		return errUnknownDomain
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
