package render

// maxKept is how many tool calls, questions and the like are remembered.
const maxKept = 1000

// bounds is a map that forgets the oldest.
type bounds[V any] struct {
	values map[string]V
	order  []string
}

func (m *bounds[V]) get(key string) (V, bool) {
	v, ok := m.values[key]
	return v, ok
}

func (m *bounds[V]) set(key string, v V) {
	if m.values == nil {
		m.values = map[string]V{}
	}
	if _, ok := m.values[key]; !ok {
		m.order = append(m.order, key)
	}
	m.values[key] = v
	for len(m.values) > maxKept || len(m.order) > 2*maxKept {
		delete(m.values, m.order[0])
		m.order = m.order[1:]
	}
}

func (m *bounds[V]) drop(key string) { delete(m.values, key) }

func (m *bounds[V]) len() int { return len(m.values) }
