package files

import "sync"

// keyedLocks are locks by name. A lock exists while it is held or waited for.
type keyedLocks struct {
	mu   sync.Mutex
	held map[any]*keyedLock
}

type keyedLock struct {
	sync.Mutex
	users int // holders and waiters, guarded by keyedLocks.mu
}

// lock waits for the lock with that name, and returns a function that unlocks it.
func (k *keyedLocks) lock(name any) (unlock func()) {
	k.mu.Lock()
	if k.held == nil {
		k.held = make(map[any]*keyedLock)
	}
	l := k.held[name]
	if l == nil {
		l = &keyedLock{}
		k.held[name] = l
	}
	l.users++
	k.mu.Unlock()

	l.Lock()
	return func() {
		l.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.held, name)
		}
	}
}
