// Package ordered provides a map that keeps the order of its keys. Callers use it to remember things up to a bound:
// when the map is full, they drop the oldest key.
package ordered

import (
	"container/list"
	"iter"
)

// Map is a map whose keys have an order: the oldest, which was set first or not moved for the longest time, comes first. The
// zero value is empty and ready. Not safe for concurrent use.
type Map[K comparable, V any] struct {
	at    map[K]*list.Element // of *entry[K, V]
	order list.List
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// Len returns the number of keys.
func (m *Map[K, V]) Len() int { return len(m.at) }

// Get returns the value of a key, and whether there is one.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	e, ok := m.at[key]
	if !ok {
		return value, false
	}
	return e.Value.(*entry[K, V]).value, true
}

// At is Get without the report: the zero value where there is none.
func (m *Map[K, V]) At(key K) V {
	value, _ := m.Get(key)
	return value
}

// Set sets the value of a key. A key that is new is the newest; another one keeps its place.
func (m *Map[K, V]) Set(key K, value V) {
	if e, ok := m.at[key]; ok {
		e.Value.(*entry[K, V]).value = value
		return
	}
	if m.at == nil {
		m.at = map[K]*list.Element{}
	}
	m.at[key] = m.order.PushBack(&entry[K, V]{key, value})
}

// Keep is Set that deletes the oldest keys until there are at most that many.
func (m *Map[K, V]) Keep(key K, value V, most int) {
	m.Set(key, value)
	for len(m.at) > most {
		m.Delete(m.Oldest())
	}
}

// Renew makes a key that there is the newest.
func (m *Map[K, V]) Renew(key K) {
	if e, ok := m.at[key]; ok {
		m.order.MoveToBack(e)
	}
}

// Delete deletes a key and returns its value; the zero value: there was none.
func (m *Map[K, V]) Delete(key K) (value V) {
	e, ok := m.at[key]
	if !ok {
		return value
	}
	delete(m.at, key)
	return m.order.Remove(e).(*entry[K, V]).value
}

// Oldest returns the oldest key. There must be one.
func (m *Map[K, V]) Oldest() K { return m.order.Front().Value.(*entry[K, V]).key }

// Clear deletes all keys.
func (m *Map[K, V]) Clear() { *m = Map[K, V]{} }

// All yields keys and values, the oldest first. The one at hand may be deleted meanwhile.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for e := m.order.Front(); e != nil; {
			next, one := e.Next(), e.Value.(*entry[K, V])
			if !yield(one.key, one.value) {
				return
			}
			e = next
		}
	}
}

// Backward yields keys and values, the newest first. The map must not be changed meanwhile.
func (m *Map[K, V]) Backward() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for e := m.order.Back(); e != nil; e = e.Prev() {
			if one := e.Value.(*entry[K, V]); !yield(one.key, one.value) {
				return
			}
		}
	}
}
