package manifest

// builder makes the trees of one text. Finished nodes stand in a store that is
// used again for the next document: what an Object keeps is copied out of it.
type builder struct {
	// stack holds the children of the collections that are still open.
	stack []node
	store []node
	seen  map[string]int
}

func (b *builder) push(n node) { b.stack = append(b.stack, n) }

// take gives the children that were pushed since the stack had the given length.
func (b *builder) take(from int) []node {
	n := len(b.stack) - from
	if n == 0 {
		return nil
	}
	if cap(b.store)-len(b.store) < n {
		b.store = make([]node, 0, max(512, 2*cap(b.store), n))
	}
	at := len(b.store)
	b.store = append(b.store, b.stack[from:]...)
	b.stack = b.stack[:from]
	return b.store[at:len(b.store):len(b.store)]
}

// forget makes room for the next document. The cleared nodes let go of its text.
func (b *builder) forget() {
	clear(b.stack[:cap(b.stack)])
	clear(b.store)
	b.stack, b.store = b.stack[:0], b.store[:0]
}

// twice finds a key that is given twice among the children since from.
func (b *builder) twice(from int) (first, second *node) {
	fields := b.stack[from:]
	if len(fields) <= 16 {
		for i := 1; i < len(fields); i++ {
			for j := range i {
				if fields[i].key == fields[j].key {
					return &fields[j], &fields[i]
				}
			}
		}
		return nil, nil
	}
	if b.seen == nil {
		b.seen = make(map[string]int, len(fields))
	}
	defer clear(b.seen)
	for i := range fields {
		if j, ok := b.seen[fields[i].key]; ok {
			return &fields[j], &fields[i]
		}
		b.seen[fields[i].key] = i
	}
	return nil, nil
}

func (n *node) child(key string) *node {
	if n.kind != Map {
		return nil
	}
	for i := range n.items {
		if n.items[i].key == key {
			return &n.items[i]
		}
	}
	return nil
}

// word gives a field that is a text.
func (n *node) word(key string) string {
	if c := n.child(key); c != nil && c.kind == String {
		return c.text
	}
	return ""
}
