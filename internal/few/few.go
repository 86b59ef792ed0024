package few

import "iter"

// most is the number of entries up to which a Map is a list. To search so many takes about as long as
// to hash a key.
const most = 16

// Map maps keys to values: as a list of few entries, and as a map of many. The zero Map is empty. It is
// not safe for concurrent use.
type Map[K comparable, V any] struct {
	list []entry[K, V]
	many map[K]V // nil: they are in list
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// Get returns the value of a key; else the zero value.
func (m *Map[K, V]) Get(key K) (value V) {
	if m.many != nil {
		return m.many[key]
	}
	for i := range m.list {
		if m.list[i].key == key {
			return m.list[i].value
		}
	}
	return value
}

// Put sets the value of a key.
func (m *Map[K, V]) Put(key K, value V) {
	if m.many != nil {
		m.many[key] = value
		return
	}
	for i := range m.list {
		if m.list[i].key == key {
			m.list[i].value = value
			return
		}
	}
	if len(m.list) < most {
		m.list = append(m.list, entry[K, V]{key, value})
		return
	}
	m.many = make(map[K]V, most+1)
	for _, e := range m.list {
		m.many[e.key] = e.value
	}
	m.many[key], m.list = value, nil
}

// Delete removes a key, if it is there.
func (m *Map[K, V]) Delete(key K) {
	m.DeleteFunc(func(k K, _ V) bool { return k == key })
}

// DeleteFunc removes the entries for which del returns true.
func (m *Map[K, V]) DeleteFunc(del func(K, V) bool) {
	for key, value := range m.many {
		if del(key, value) {
			delete(m.many, key)
		}
	}
	left := m.list[:0]
	for _, e := range m.list {
		if !del(e.key, e.value) {
			left = append(left, e)
		}
	}
	clear(m.list[len(left):])
	m.list = left
}

// Len is the number of entries.
func (m *Map[K, V]) Len() int { return len(m.list) + len(m.many) }

// All iterates over the entries, in no order. The loop does not change the map.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for i := range m.list {
			if !yield(m.list[i].key, m.list[i].value) {
				return
			}
		}
		for key, value := range m.many {
			if !yield(key, value) {
				return
			}
		}
	}
}
